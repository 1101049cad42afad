"""Commands with a subcommand per benchmark, whose options are the settings of that benchmark.

Without a name, the default benchmark's command runs. A command is made when it is used, so that the help of one
benchmark imports no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import typer
from typer.core import TyperGroup

from medagent.terminal.groups import command
from medagent.terminal.settings import parameter_of, with_options


def per_benchmark(
    words: str,
    function: Callable[..., None],
    help: str,
    fields: Callable[[Any], Sequence[Any]],
    doc: Callable[[Any], str | None] | None = None,
    rare: Callable[[Any], Iterable[Any]] = lambda _: (),
    *,
    fhir: bool = False,
    argument: bool = False,
) -> typer.Typer:
    """A group with a command per benchmark. `words` is the command line up to the benchmark's name.

    `function` gets the benchmark and the values of its options, which are `fields`; `doc` is the command's help (by
    default the function's docstring). `rare` are the fields that only `--help-all` shows. `fhir`: fail for benchmarks
    without a FHIR session. `argument`: the command takes an argument, so a first word that is not a benchmark is that
    argument.
    """

    commands: dict[tuple[type, str], Any] = {}
    """Those that were made, by the class of the benchmark and the user's name for it."""

    class PerBenchmark(TyperGroup):
        """Finds the command by the name of a benchmark."""

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            """Put the default benchmark's name first if no benchmark is named."""
            from medagent.benchmarks.base import DEFAULT

            return super().parse_args(ctx, args if _names_one(args, argument) else [DEFAULT, *args])

        def list_commands(self, ctx: Any) -> list[str]:
            """The installed benchmarks with this command."""
            from medagent.benchmarks.base import fhir_names, names

            return fhir_names() if fhir else names()

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            """The command of a benchmark. Raises UserError if it is not installed or does not use a FHIR session."""
            from medagent.benchmarks.base import DEFAULT, find, find_fhir

            benchmark: Any = find_fhir(cmd_name) if fhir else find(cmd_name)
            identity = (type(benchmark), benchmark.reference)
            if identity in commands:
                return commands[identity]
            others = ", ".join(name for name in self.list_commands(ctx) if name != DEFAULT)
            more = f"Other benchmarks: {others}. Their options: {words} NAME --help"
            with_its_options = with_options(fields(benchmark))(partial(function, benchmark))
            with_its_options.__doc__ = doc(benchmark) if doc else function.__doc__
            default = cmd_name == DEFAULT
            commands[identity] = command(cmd_name, with_its_options, more if default else None)
            commands[identity].usage = f"{words} [BENCHMARK]" if default else ""
            commands[identity].rare = frozenset(map(parameter_of, rare(benchmark)))
            return commands[identity]

    app = typer.Typer(cls=PerBenchmark, add_completion=False, rich_markup_mode=None)
    app.callback(help=help)(_nothing)
    return app


def own_options(benchmark: Any) -> list[str]:
    """The names of the options that select a FHIR benchmark's tasks, such as `dataset` and `version`."""
    from medagent.fhir_episodes import settings

    return settings.own_options(benchmark.Settings)


def _names_one(args: list[str], argument: bool) -> bool:
    """Whether the first word is the name of a benchmark, or nearly so (a misspelling)."""
    if not args or args[0].startswith("-"):
        return False
    if not argument:
        return True
    from medagent.benchmarks.base import names
    from medagent.core.plugins import is_import_path, is_whole_file

    return args[0] in names() or is_import_path(args[0]) or is_whole_file(args[0])


def _nothing() -> None:
    pass
