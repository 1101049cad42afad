"""The lines under each table that say what was measured: data, protocol, model, versions, times.

Published rates of one model on one benchmark differ widely. These lines show which conditions were the same.
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
"""The largest number of listed items."""
_FURTHER = {"handling": "server handling", "found": "found ids", "input-cap": "input cap"}
"""Further settings that a score depends on, with the words before their values."""
_SHOWN = 12
"""The number of characters of a digest to show."""


def measured_on(report: Report) -> list[str]:
    """The lines. Values that the report lacks are omitted."""
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
    """Who answered: the model, the agent, or an agent with a model."""
    agent, model = (str(report.settings.get(name) or "") for name in ("agent", "model"))
    return " with ".join(filter(None, (agent, model))) or Path(report.folder).name


def protocol(report: Report) -> str:
    """How messages become actions; empty if the benchmark has no protocols. Agents without a model act by text."""
    return str(report.settings.get("protocol") or ("text" if report.settings.get("loop") else ""))


def above_blind(report: Report) -> str:
    """How far the rate is above that of the blind baseline, in points, with the 95 % interval; empty if the benchmark
    has no such baseline.
    """
    above = report.details.get("above_blind")
    if not above:
        return ""
    low, high = (100 * bound for bound in above["interval_95"])
    return f"{100 * above['difference']:+.1f} points (95 % {low:.1f} to {high:.1f})"


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
    """The usage and cost of the answering models, without judges."""
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
    """That the agent learned during the run, and from which items."""
    if not report.learned:
        return ""
    what = "value, correct, kind" + (", reason, checks, facts" if report.settings.get("learn-from") == "facts" else "")
    units = [unit.removesuffix("#1") for unit in report.learned]
    return f"Learned: from the scores ({what}) of {len(units)} items, each after its own: {named(units, _NAMED)}"


def _ran(report: Report) -> str:
    return _line("Ran", [f"{report.started} to {report.ended}" if report.started and report.ended else ""])


def _versions(report: Report) -> str:
    """medagent and Python; the packages are in `run.json`."""
    medagent, commit, python = (report.versions.get(name, "") for name in ("medagent", "commit", "python"))
    own = f"medagent {medagent}" + (f" (commit {commit})" if commit else "") if medagent else ""
    return _line("Versions", [own, f"python {python}" if python else ""])


def _line(name: str, parts: list[str]) -> str:
    present = [part for part in parts if part]
    return f"{name}: {', '.join(present)}" if present else ""
