"""Command groups that import a command on use, and help that shows complete sentences.

A command is one line in a table: its import path and a sentence. `medagent --help` prints the sentences without
importing any command.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


@dataclass(frozen=True, slots=True)
class Lazy:
    """A command: its import path (`module:name` of a function or a Typer), its help, and whether help leaves it out."""

    path: str
    help: str
    hidden: bool = False


class WholeGroup(TyperGroup):
    """A group whose help shows the complete first sentence of each command."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands with their sentences, without hidden ones."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        shown = [(name, command) for name, command in commands if command is not None and not command.hidden]
        with formatter.section("Commands"):
            formatter.write_dl([(name, _sentence(command.help or "")) for name, command in shown])


def _sentence(text: str) -> str:
    """The first paragraph of a help text, on one line."""
    return " ".join(text.partition("\n\n")[0].split())


class LazyGroup(TyperGroup):
    """A group whose commands are listed in `sections`, by the headings of its help."""

    sections: Mapping[str, Mapping[str, Lazy]] = {}

    @property
    def table(self) -> dict[str, Lazy]:
        """All commands."""
        return {name: lazy for section in self.sections.values() for name, lazy in section.items()}

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands, in the order of the help."""
        return list(self.table)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the arguments name. Fails with a suggestion if there is none."""
        if args and not args[0].startswith("-") and args[0] not in self.table:
            from medagent.core.suggest import did_you_mean

            ctx.fail(f"No such command {args[0]!r}.{did_you_mean(args[0], self.table)}")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command with this name; None if there is none."""
        lazy = self.table.get(cmd_name)
        return None if lazy is None else loaded(cmd_name, lazy.path)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the sections with complete sentences."""
        width = max(map(len, self.table))
        for title, section in self.sections.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name.ljust(width), command.help) for name, command in section.items() if not command.hidden]
                )


def group(help: str, *, no_args_is_help: bool = True) -> typer.Typer:
    """An empty group of commands. Its help is plain text and shows the first sentence of each command."""
    return typer.Typer(
        cls=WholeGroup, help=help, no_args_is_help=no_args_is_help, add_completion=False, rich_markup_mode=None
    )


_WHOLE = "medagent.whole"
"""Marks a context in which help shows all options."""


def show_all(context: typer.Context, switched_on: bool) -> None:
    """The callback of `--help-all`: print the help with all options, and exit."""
    if switched_on:
        context.meta[_WHOLE] = True
        print(context.get_help())
        raise typer.Exit


class GroupedCommand(TyperCommand):
    """A command whose options are listed under the headings of their groups."""

    rare: frozenset[str] = frozenset()
    """The parameters that only `--help-all` shows."""
    usage = ""
    """The command in its usage line; empty: as it was called."""

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """Write the usage line."""
        formatter.write_usage(self.usage or ctx.command_path, " ".join(self.collect_usage_pieces(ctx)))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments first, then the groups in the order of their first option, with the common options last."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and (param.name not in self.rare or _WHOLE in ctx.meta):
                argument = param.param_type_name == "argument"
                title = "Arguments" if argument else getattr(param, "rich_help_panel", None) or "Options"
                groups.setdefault(title, []).append(record)
        for title in sorted(groups, key=lambda title: (title != "Arguments", title == "Options")):
            with formatter.section(title):
                formatter.write_dl(groups[title])


def loaded(name: str, path: str) -> Any:
    """The command at an import path."""
    module, _, attribute = path.partition(":")
    return _command_of(name, getattr(import_module(module), attribute))


@cache  # a program may run commands again and again, and the options of one take long to make
def _command_of(name: str, target: Any) -> Any:
    if isinstance(target, typer.Typer):
        group: Any = (
            typer.main.get_group(target)
            if target.registered_groups or target.registered_callback or len(target.registered_commands) > 1
            else typer.main.get_command(target)
        )
        group.name = name
        return group
    return command(name, target)


def command(name: str, function: Any, epilog: str | None = None) -> Any:
    """A command from a function with typer's annotations."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, cls=GroupedCommand, epilog=epilog)(function)
    return typer.main.get_command(app)
