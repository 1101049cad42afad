"""`medagent run`: runs MedAgentBench, or the named benchmark. The options are the fields of its settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from medagent.cli._benchmarks import per_benchmark
from medagent.terminal import options
from medagent.terminal.settings import fields_of

FREQUENT = (
    *("round", "agent", "model", "base_url", "protocol", "judge", "ehr", "fhir", "writes"),
    *("system", "skill", "ids", "limit", "trials", "max_cost", "concurrency", "unit_time", "unit_tokens", "unit_cost"),
)
"""The shared options that `--help` shows, by field. It also shows those that only this benchmark has."""
CONFIG = "A TOML file with defaults, which override medagent.toml."


def _output(*flags: str, help: str) -> Any:
    return typer.Option(*flags, help=help, show_default=False)


def run(
    benchmark: Any,
    values: dict[str, Any],
    config: Annotated[Path | None, _output("--config", help=CONFIG)] = None,
    report: Annotated[
        Path | None, _output("--report", help="Write an HTML report every minute and at the end.")
    ] = None,
    quiet: Annotated[bool, _output("--quiet", "-q", help="No progress.")] = False,
    as_json: Annotated[bool, _output("--json", help="Print JSON instead of a table.")] = False,
    full: options.Full = False,
    help_all: options.HelpAll = False,
    expect_recorded: Annotated[bool, typer.Option("--expect-recorded", hidden=True)] = False,
) -> None:
    """The function behind `medagent run NAME`, and behind `medagent grade NAME --answers FILE --expect-recorded`."""
    from medagent.cli._config import defaults
    from medagent.core.options import checked
    from medagent.reports.runs import carry_out
    from medagent.reports.tables import say

    settings = checked(benchmark.Settings, {**defaults(benchmark, config), **values})
    rewrite = _rewriting(report, benchmark.reference or None) if report is not None else None
    plan = benchmark.plan(settings, say)
    carry_out(
        plan, benchmark, as_json=as_json, quiet=quiet, full=full, rewrite=rewrite, expect_recorded=expect_recorded
    )


def _rewriting(file: Path, code: str | None) -> Callable[[Path], object]:
    """A function that writes the HTML report of a run's folder. Raises UserError if the file's folder is missing."""
    from medagent._finished import write_page
    from medagent.core.errors import UserError

    if not file.absolute().parent.is_dir():
        raise UserError(f"--report {file}: the folder {file.parent} does not exist")
    return lambda folder: write_page([folder], file, code, None, {})


def _help(benchmark: Any) -> str:
    example = benchmark.example or f"{benchmark.command} --model gpt-4o-mini"
    continuing = "Each finished item is saved at once. Repeat the command to continue a stopped run."
    return f"{inspect.getdoc(type(benchmark))}\n\n{continuing}\n\nExample: {example}"


def rare(benchmark: Any) -> list[Any]:
    """The fields of shared options that few users need."""
    from medagent.engine.settings import RunSettings
    from medagent.fhir_episodes.settings import FhirSettings
    from medagent.judging.panel import PanelSettings

    shared = {name for model in (RunSettings, FhirSettings, PanelSettings) for name in model.model_fields}
    return [option for option in fields_of(benchmark.Settings, use="run") if option.name in shared - {*FREQUENT}]


app = per_benchmark(
    "medagent run",
    run,
    "Run a benchmark: MedAgentBench (without a name), or the one that you name.",
    lambda benchmark: fields_of(benchmark.Settings, use="run"),
    _help,
    rare,
)
