"""`medagent run`: MedAgentBench by itself, every other benchmark by its name; the options are its settings' fields."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from medagent.terminal.groups import command
from medagent.terminal.settings import fields_of, with_options

OUTPUT = "Output"


class Benchmarks(TyperGroup):
    """One command a benchmark, made when it is asked for; without a name it is the default benchmark's."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the default benchmark's name before options."""
        from medagent.benchmarks.base import DEFAULT

        return super().parse_args(ctx, [DEFAULT, *args] if not args or args[0].startswith("-") else args)

    def list_commands(self, ctx: Any) -> list[str]:
        """The benchmarks that are installed."""
        from medagent.benchmarks.base import names

        return names()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a benchmark. Raises UserError for one that is not there."""
        from medagent.benchmarks.base import DEFAULT, find, names

        benchmark = find(cmd_name)
        others = [name for name in names() if name != DEFAULT]
        epilog = None
        if cmd_name == DEFAULT:
            epilog = f"Other benchmarks: {', '.join(f'medagent run {name}' for name in others)} (--help shows each)."
        return command(cmd_name, run_function(benchmark), epilog)


def _output(*flags: str, help: str) -> Any:
    return typer.Option(*flags, help=help, rich_help_panel=OUTPUT, show_default=False)


app = typer.Typer(cls=Benchmarks, add_completion=False, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Run a benchmark: MedAgentBench (without a name), or another one by its name."""


def run_function(benchmark: Any) -> Callable[..., None]:
    """The function behind `medagent run NAME`, with a parameter for each option of the benchmark's settings."""

    def run(
        given: dict[str, Any],
        config: Annotated[Path | None, _output("--config", help="A TOML file with defaults for these options.")] = None,
        report: Annotated[
            Path | None, _output("--report", help="An HTML report, written anew every minute and at the end.")
        ] = None,
        quiet: Annotated[bool, _output("--quiet", "-q", help="No progress.")] = False,
        as_json: Annotated[bool, _output("--json", help="Print JSON instead of a table.")] = False,
    ) -> None:
        from medagent.cli.config import defaults
        from medagent.core.options import checked
        from medagent.reports.runs import carry_out
        from medagent.reports.tables import say

        settings = checked(benchmark.Settings, {**defaults(benchmark, config), **given})
        rewrite = _rewriting(report, benchmark.reference or None) if report is not None else None
        carry_out(benchmark.plan(settings, say), benchmark, as_json=as_json, quiet=quiet, rewrite=rewrite)

    function = with_options(fields_of(benchmark.Settings))(run)
    function.__doc__ = _help(benchmark)
    return function


def _rewriting(file: Path, code: str | None) -> Callable[[Path], object]:
    """What writes the HTML report of a run's folder. Raises UserError where the file's folder is not there."""
    from medagent.api import write_report
    from medagent.core.errors import UserError

    if not file.absolute().parent.is_dir():
        raise UserError(f"--report {file}: its folder is not there")
    return lambda folder: write_report([folder], file, benchmark=code)


def _help(benchmark: Any) -> str:
    name = "" if benchmark.name == "medagentbench" else f" {benchmark.name}"
    example = benchmark.example or f"medagent run{name} --model gpt-4o-mini"
    kept = (
        "Every finished item is on disk at once; the same command again continues where the last one stopped. "
        "Precedence of options: the command line, --config FILE, medagent.toml (or [tool.medagent] of pyproject.toml) "
        "in this folder, the default."
    )
    return f"{inspect.getdoc(type(benchmark))}\n\n{kept}\n\nExample: {example}"
