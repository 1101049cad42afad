"""What a score was measured on, in a few lines under each table: data, protocol, model, versions, times.

One model is reported with very different rates on one benchmark. These lines state the conditions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from medagent.core.number_formats import difference, difference_spread, model_name
from medagent.core.options import Setting
from medagent.engine.report import DataRef, Report
from medagent.reports.tables import named
from medagent.sandbox.base import Limits

_NAMED = 20
"""Number of items that are listed."""
_FURTHER = {
    "handling": "server handling",
    "found": "found ids",
    "input-cap": "input cap",
}
"""Further settings that a score depends on, with their labels."""
_SHOWN = 12
"""Shown characters of a digest."""
_FOLDER = re.compile(r"[^\s:]*/(?=[^/\s]+\.(?:py:|json\b))")
"""The folder of an agent's file, or of a scripted model's."""


def measured_on(report: Report) -> list[str]:
    """The conditions, one a line."""
    return [f"{name}: {text}" for name, text in conditions(report).items()]


def conditions(report: Report) -> dict[str, str]:
    """The conditions by name. Unknown values are left out."""
    settings, data, versions = report.settings, report.data, report.versions
    name = " ".join(filter(None, (data.name, data.version)))
    sandbox = f"{settings.get('sandbox')} ({settings.get('sandbox-version')})"
    commit = f" (commit {versions['commit']})" if versions.get("commit") else ""
    lines: dict[str, Iterable[str]] = {
        "Data set": [name, _digest("digest", data.digest), _patients(settings)] if name else [],
        "Protocol": _protocol(report),
        "Sandbox": [sandbox, Limits.of(settings).words] if settings.get("sandbox") else [],
        "Model": _model(report) if settings.get("model") else [],
        "Agent": [who(report)] if settings.get("agent") and not settings.get("model") else [],
        "Learned": _learned(report),
        "Repeated attempts": [repeated(report)],
        "Ran": [f"{report.started} to {report.ended}"] if report.started and report.ended else [],
        "Versions": [
            f"{name} {versions[name]}" + (commit if name == "medagent" else "")
            for name in ("medagent", "python")
            if versions.get(name)
        ],
    }
    texts = {name: ", ".join(filter(None, parts)) for name, parts in lines.items()}
    if texts["Data set"] and data.note:
        texts["Data set"] += f"; {data.note}"
    return {name: text for name, text in texts.items() if text}


def who(report: Report) -> str:
    """The model, the agent, or the agent with its model; each with its arguments."""
    settings = report.settings
    arguments = {"agent": ("agent-arg",), "model": ("model-arg", "extra")}
    names = []
    for name, flags in arguments.items():
        listed = [str(path) for flag in flags for path in _listed(settings.get(flag))]
        if settings.get(name):
            names.append(f"{settings[name]}({', '.join(listed)})" if listed else str(settings[name]))
    return " with ".join(names) or Path(report.folder).name


def title(report: Report) -> str:
    """The data, the model and the protocol: `MedAgentBench v2, synthetic patients · gpt-4o-mini · text`."""
    loop = report.settings.get("loop")
    agent = _FOLDER.sub("", who(report))
    names = [data_words(report.data) or report.benchmark, agent, protocol(report)]
    loops = f"loop {loop}" if loop not in (None, "published") else ""
    return " · ".join(filter(None, [*names, skills_words(report), loops, pages(report)]))


def skills_words(report: Report) -> str:
    """The skills of a run by name: `skill dosing`. Empty without any."""
    names = [text.partition(" ")[0] for text in _listed(report.settings.get("skills"))]
    noun = "skills" if len(names) > 1 else "skill"
    return f"{noun} {', '.join(names)}" if names else ""


def repeated(report: Report) -> str:
    """The attempts that `--retry` repeated: `28 invalid_action, 2 empty`. Empty without any."""
    return ", ".join(f"{n:,} {status}" for status, n in report.repeated.items())


def data_words(data: DataRef) -> str:
    """The data in words: `MedAgentBench v2, synthetic patients`."""
    words = " ".join(filter(None, (data.name, data.version)))
    words, synthetic = re.subn(r"[- ]synthetic\b", "", words, flags=re.IGNORECASE)
    return words + ", synthetic patients" * synthetic


def _listed(value: Setting) -> list[str]:
    return value if isinstance(value, list) else []


def protocol(report: Report) -> str:
    """The protocol, if the benchmark has several. Agents without a model use text."""
    return str(report.settings.get("protocol") or ("text" if report.settings.get("loop") else ""))


def above_blind(report: Report) -> str:
    """The rate minus that of the blind baseline, in points, with the 95 % interval; empty if the benchmark has no such
    baseline.
    """
    margin = report.details.get("above_blind")
    if not margin:
        return ""
    return f"{difference(margin['difference'])} (95% {difference_spread(margin['interval_95'])})"


def pages(report: Report) -> str:
    """How the run's server paged results, if not by default: `pages of 5, shuffled order`."""
    size, order = (report.settings.get(name) for name in ("page-size", "order"))
    return ", ".join(filter(None, [f"pages of {size}" if size else "", f"{order} order" if order else ""]))


def _digest(name: object, digest: object) -> str:
    return f"{name} {str(digest)[:_SHOWN]}" if digest else ""


def _patients(settings: Mapping[str, Setting]) -> str:
    """The digest of the patients; the host of a FHIR server, whose patients are not checked."""
    if settings.get("fhir"):
        return f"patients on {urlsplit(str(settings['fhir'])).netloc.rpartition('@')[2]}"
    return _digest("patients", settings.get("ehr-digest"))


def _protocol(report: Report) -> Iterator[str]:
    settings = report.settings
    yield protocol(report)
    for text in _listed(settings.get("skills")):
        name, _, digest = text.partition(" ")
        yield f"skill {name}, {_digest('digest', digest)}"
    yield _digest("prompts", settings.get("prompts-digest"))
    yield _digest("own tools", settings.get("tools-digest"))
    yield f"loop {settings['loop']}" if settings.get("loop") else ""
    yield f"rules {report.rules}" if report.rules else ""
    yield from report.details.get("graded_by", ())
    yield pages(report)
    for name, words in _FURTHER.items():
        yield f"{words} {settings[name]}" if settings.get(name) else ""


def _model(report: Report) -> Iterator[str]:
    """The model, how it was asked, and the names that its endpoint gave it."""
    settings = report.settings
    spent = report.model_spent
    temperature, limit = settings.get("temperature"), settings.get("max-tokens")
    set_ = isinstance(temperature, int | float) and temperature >= 0
    yield who(report)
    yield f"served as {', '.join(map(model_name, spent.served))}" if spent.served else ""
    if settings.get("agent-loop") == "own" and not spent.through_context:
        yield "sampling: the agent's own"
        return
    yield f"temperature {temperature:g}" if set_ else "temperature of its own"
    yield f"max tokens {limit}" if limit else "max tokens of the endpoint"
    for name in ("trial-seed", "strip-thinking", "cache"):
        value = settings.get(name)
        if value is True:
            yield name
        elif value:
            yield f"{name} {value}"
    if spent.reused:
        yield f"{spent.reused} of {spent.calls} replies from the cache"


def _learned(report: Report) -> Iterator[str]:
    """The items from which the agent learned during the run."""
    if report.learned:
        facts = ", reason, checks, facts" if report.settings.get("sequential") == "facts" else ""
        units = [unit.removesuffix("#1") for unit in report.learned]
        what = f"(value, correct, kind{facts}) of {len(units)} items"
        yield f"from the scores {what}, each after its own: {named(units, _NAMED)}"
