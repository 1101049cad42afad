"""What a score was measured on: data, protocol, model, versions, times, in a few lines under each table.

The same model is reported at very different rates under one name of a benchmark; these lines say what was the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from medagent.engine.report import DataRef, Report
from medagent.sandbox.base import Limits

_FURTHER = {"handling": "server handling", "found": "found ids", "input-cap": "input cap"}
"""Further settings that a score depends on, with the words before their values."""
_SHOWN = 12
"""Characters of a digest that a person compares."""


def measured_on(report: Report) -> list[str]:
    """The lines; what the report does not know is left out."""
    lines = [_data(report.data), _protocol(report), _sandbox(report), _model(report), _ran(report), _versions(report)]
    return [line for line in lines if line]


def who(report: Report) -> str:
    """Who answered: the model, the agent, or an agent with a model."""
    agent, model = (str(report.settings.get(name) or "") for name in ("agent", "model"))
    return " with ".join(filter(None, (agent, model))) or Path(report.folder).name


def protocol(report: Report) -> str:
    """How messages become actions, where the benchmark has it: agents without a model act by text."""
    return str(report.settings.get("protocol") or ("text" if report.settings.get("loop") else ""))


def _data(data: DataRef) -> str:
    name = " ".join(filter(None, (data.name, data.version)))
    line = _line("Data set", [name, f"digest {data.digest[:_SHOWN]}" if data.digest else ""]) if name else ""
    return f"{line}; {data.note}" if line and data.note else line


def _protocol(report: Report) -> str:
    digest = report.settings.get("prompts-digest")
    loop = report.settings.get("loop")
    parts = [
        protocol(report),
        f"prompts {str(digest)[:_SHOWN]}" if digest else "",
        f"loop {loop}" if loop else "",
        f"rules {report.rule_set}" if report.rule_set else "",
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
    parts = [
        who(report),
        f"served as {', '.join(report.spent.served)}" if report.spent.served else "",
        *_sampling(report),
    ]
    return _line("Model", parts)


def _sampling(report: Report) -> Iterator[str]:
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
    if report.spent.reused:
        yield f"{report.spent.reused} of {report.spent.calls} replies from the cache"


def _ran(report: Report) -> str:
    return _line("Ran", [f"{report.started} to {report.ended}" if report.started and report.ended else ""])


def _versions(report: Report) -> str:
    versions = dict(report.versions)
    commit = versions.pop("commit", "")
    medagent = versions.pop("medagent", "")
    parts = [
        f"medagent {medagent}" + (f" (commit {commit})" if commit else "") if medagent else "",
        *(f"{name} {version}" for name, version in versions.items()),
    ]
    return _line("Versions", parts)


def _line(name: str, parts: list[str]) -> str:
    said = [part for part in parts if part]
    return f"{name}: {', '.join(said)}" if said else ""
