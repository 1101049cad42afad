"""Command line options made from the fields of settings models, for commands that share options with runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer

"""Begins the name of the parameter of an earlier flag."""


def fields_of(model: Any, *names: str, use: Any = None) -> list[Any]:
    """The options of a settings model: all, those for a use, or some by field name."""
    from medagent.core.options import options

    return [field for field in options(model, use) if not names or field.name in names]


def with_options(
    fields: Sequence[Any], *, defaults: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add these options to a command's own parameters. Its first parameter gets the values that the user passed on the
    command line, by field. `defaults`: whether help shows the default values.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        command_parameters = list(inspect.signature(command, eval_str=True).parameters.values())[1:]

        def function(**arguments: Any) -> None:
            context = arguments.pop("context")
            mine = {parameter.name: arguments.pop(parameter.name) for parameter in command_parameters}
            passed = {
                name: value
                for name, value in arguments.items()
                if context.get_parameter_source(name).name == "COMMANDLINE"
            }
            command(_values(fields, passed), **mine)

        parameters = [
            inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
            *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in command_parameters),
            *_parameters(fields, defaults),
        ]
        function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
        function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        function.__doc__ = command.__doc__
        return function

    return decorate


def parameter_of(field: Any) -> str:
    """The name of the command's parameter that sets a field."""
    return _keyword(field.option.part.partition(" ")[0]) or str(field.name)


def _parts(fields: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """The fields that share an option: by the option's flag and their names in it."""
    shared: dict[str, dict[str, Any]] = {}
    for field in fields:
        if field.option.part:
            flag, name = field.option.part.split()
            shared.setdefault(flag, {})[name] = field
    return shared


def _values(fields: Sequence[Any], passed: Mapping[str, Any]) -> dict[str, Any]:
    """The values by field. Raises UserError for a part that a shared option does not accept."""
    from medagent.core.errors import UserError
    from medagent.core.options import by_field

    values = by_field(fields, passed)
    for flag, parts in _parts(fields).items():
        texts = values.pop(_keyword(flag), [])
        for text in ",".join(texts).split(",") if texts else []:
            name, equals, value = text.partition("=")
            if not equals or name not in parts:
                raise UserError(f"--{flag} {text}: write NAME=VALUE,… with the names {', '.join(parts)}")
            values[parts[name].name] = value
    return values


def _keyword(flag: str) -> str:
    return flag.replace("-", "_")


def _parameters(fields: Sequence[Any], defaults: bool) -> Iterator[inspect.Parameter]:
    """The command line options of fields: a field's own, and one for all fields that share it."""
    shared = _parts(fields)
    for field in fields:
        flag, _, _ = field.option.part.partition(" ")
        if parts := shared.pop(flag, None):
            shown = {name: part.default if defaults else None for name, part in parts.items()}
            metavar = ",".join(f"{name}={'…' if value is None else value}" for name, value in shown.items())
            text = " ".join(f"{name}: {part.help}" for name, part in parts.items())
            yield _parameter(
                _keyword(flag), list[str], f"--{flag}", help=text, metavar=metavar, group=field.option.group
            )
        if not field.option.part:
            yield _own(field, defaults)


def _own(field: Any, defaults: bool) -> inspect.Parameter:
    from medagent.core.options import plain_type

    kind = plain_type(field.info.annotation)
    simple = kind if kind in (str, int, float, bool, Path) or get_args(kind) else str
    annotation = {tuple: str, dict: list[str], list: list[str]}.get(get_origin(kind), simple)
    shown = field.default if defaults and kind is not bool else None
    if kind is Path and shown and Path(shown).is_absolute():  # a bundled file, which the help text names
        shown = None
    return _parameter(
        field.name,
        annotation,
        *([f"--{field.option.also}"] if field.option.also else []),
        f"--{field.flag}/--no-{field.flag}" if kind is bool else f"--{field.flag}",
        help=field.help + ("" if shown is None else f"  [default: {shown}]"),
        metavar=field.option.metavar,
        group=field.option.group,
        hidden=field.option.hidden,
    )


def _parameter(name: str, annotation: Any, *flags: str, group: str = "", **options: Any) -> inspect.Parameter:
    option = typer.Option(*flags, rich_help_panel=group or None, show_default=False, **options)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[annotation | None, option]
    )
