"""What a score was measured on, in a few lines under each table: data, protocol, model, versions, times.

One model is reported with very different rates on one benchmark. These lines state the conditions.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from medagent.engine.journals import merged
from medagent.engine.report import DataRef, Report
from medagent.engine.rows import Spent
from medagent.reports.tables import named
from medagent.sandbox.base import Limits

_NAMED = 20
"""Number of items that are listed."""
_FURTHER = {"handling": "server handling", "found": "found ids", "input-cap": "input cap"}
"""Further settings that a score depends on, with their labels."""
_SHOWN = 12
"""Shown characters of a digest."""


def measured_on(report: Report) -> list[str]:
    """The lines. Unknown values are left out."""
    lines = [
        _data(report.data),
        _protocol(report),
        _sandbox(report),
        _model(report),
        _learned(report),
        _ran(report),
        _versions(report),
    ]
    return [line for line in lines if line]


def who(report: Report) -> str:
    """The model, the agent, or the agent with its model."""
    agent, model = (str(report.settings.get(name) or "") for name in ("agent", "model"))
    return " with ".join(filter(None, (agent, model))) or Path(report.folder).name


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
    low, high = (100 * bound for bound in margin["interval_95"])
    return f"{100 * margin['difference']:+.1f} points (95 % {low:.1f} to {high:.1f})"


def _data(data: DataRef) -> str:
    name = " ".join(filter(None, (data.name, data.version)))
    line = _line("Data set", [name, f"digest {data.digest[:_SHOWN]}" if data.digest else ""]) if name else ""
    return f"{line}; {data.note}" if line and data.note else line


def _protocol(report: Report) -> str:
    digest = report.settings.get("prompts-digest")
    loop, tools = report.settings.get("loop"), report.settings.get("tools-digest")
    parts = [
        protocol(report),
        f"prompts {str(digest)[:_SHOWN]}" if digest else "",
        f"own tools {str(tools)[:_SHOWN]}" if tools else "",
        f"loop {loop}" if loop else "",
        f"rules {report.rule_set}" if report.rule_set else "",
        *report.details.get("graded_by", ()),
        *(f"{words} {report.settings[name]}" for name, words in _FURTHER.items() if report.settings.get(name)),
    ]
    return _line("Protocol", parts)


def _sandbox(report: Report) -> str:
    settings = report.settings
    if not settings.get("sandbox"):
        return ""
    return _line("Sandbox", [f"{settings['sandbox']} ({settings.get('sandbox-version')})", Limits.of(settings).words])


def _model(report: Report) -> str:
    settings = report.settings
    if not settings.get("model"):
        return _line("Agent", [str(settings.get("agent") or "")])
    spent = _of_models(report)
    served = f"served as {', '.join(spent.served)}" if spent.served else ""
    return _line("Model", [who(report), served, *_sampling(report, spent)])


def _of_models(report: Report) -> Spent:
    """The cost of the models that answered, without judges."""
    of_models = [spent for name, spent in report.spending.items() if name.partition(" ")[0] != "judge"]
    return merged(of_models) if report.spending else report.spent


def _sampling(report: Report, spent: Spent) -> Iterator[str]:
    settings = report.settings
    temperature, limit = settings.get("temperature"), settings.get("max-tokens")
    set_ = isinstance(temperature, int | float) and temperature >= 0
    yield f"temperature {temperature:g}" if set_ else "temperature of its own"
    yield f"max tokens {limit}" if limit else "max tokens of the endpoint"
    for name in ("trial-seed", "extra", "strip-thinking", "cache"):
        value = settings.get(name)
        if value is True:
            yield name
        elif value:
            yield f"{name} {' '.join(value) if isinstance(value, list) else value}"
    if spent.reused:
        yield f"{spent.reused} of {spent.calls} replies from the cache"


def _learned(report: Report) -> str:
    """The items from which the agent learned during the run."""
    if not report.learned:
        return ""
    what = "value, correct, kind" + (", reason, checks, facts" if report.settings.get("learn-from") == "facts" else "")
    units = [unit.removesuffix("#1") for unit in report.learned]
    return f"Learned: from the scores ({what}) of {len(units)} items, each after its own: {named(units, _NAMED)}"


def _ran(report: Report) -> str:
    return _line("Ran", [f"{report.started} to {report.ended}" if report.started and report.ended else ""])


def _versions(report: Report) -> str:
    """The versions of medagent and Python; those of packages are in `run.json`."""
    medagent, commit, python = (report.versions.get(name, "") for name in ("medagent", "commit", "python"))
    own = f"medagent {medagent}" + (f" (commit {commit})" if commit else "") if medagent else ""
    return _line("Versions", [own, f"python {python}" if python else ""])


def _line(name: str, parts: list[str]) -> str:
    texts = [part for part in parts if part]
    return f"{name}: {', '.join(texts)}" if texts else ""
