"""An option is a field of a settings model, marked with what its type does not express.

A field states type, default, help, uses and needs once. The command line, `run.json`, `--help`, the configuration file,
the Python API, the checks of options without an effect, and the tables of the documentation are generated from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo

from medagent.core.code_digest import has_json_form
from medagent.core.errors import UserError
from medagent.core.suggest import did_you_mean

M = TypeVar("M", bound=BaseModel)
Storage = Literal["setting", "place", "limit", "effort"]
"""What happens to an option's value. A setting decides the rows of a run and cannot change. A place (a path, the
selection) may change, and is part of the command to continue. So is a limit, but no file stores it. Effort
(concurrency, timeouts, retries) is not stored.
"""
Kind = Literal["value", "path", "address", "secret", "code"]
"""What a value can do. This decides who may set it (`cli/_config.py`) and whether a file may contain it. A path is a
file, a folder, or a text that may name one. An address sets where requests go or who may send them. A secret is one, or
the name of its variable. Code is a name or an import path of code that is then imported and run.
"""
Use = Literal["run", "episode", "source", "grade"]
"""Who reads an option: `medagent run`, `medagent.episode`, the grading of a run whose `run.json` contains it, `medagent
grade`.
"""
ALL_USES: tuple[Use, ...] = get_args(Use)
Setting = str | int | float | bool | list[str] | None
"""An option's value in `run.json`. A list is a repeated option."""


@dataclass(frozen=True, slots=True)
class Option:
    """Marks a field as an option. Every declaration states its kind, so that no option is trusted by accident."""

    group: str
    """Its heading in `--help`."""
    storage: Storage = "setting"
    kind: Kind = field(kw_only=True)
    for_: tuple[Use, ...] = field(default=("run", "episode", "source"), kw_only=True)
    needs: str = ""
    """Names of options, or of properties of the settings, that must be set; otherwise the option does nothing: it is
    refused, and `run.json` contains null. The settings' `ways` says how a user sets a property.
    """
    refused: bool = True
    """Whether it is refused without what it needs. If not, it is only ignored."""
    without: str = ""
    """Names of options that exclude it."""
    flag: str = ""
    """Its name on the command line, if it differs from the field's."""
    also: str = ""
    """A second name on the command line."""
    key: str = ""
    """Its name in `run.json`, if it differs from the flag: names in files do not change."""
    part: str = ""
    """`code seconds`: the command line writes it as `--code seconds=VALUE`, and shares `--code` with other options."""
    metavar: str | None = None
    hidden: bool = False


RunOption = partial(Option, for_=("run",))
"""An option that only a run reads."""
GradeOption = partial(Option, for_=("grade",))
"""An option that only `medagent grade` accepts."""


@dataclass(frozen=True, slots=True)
class OptionField:
    """An option of a settings model."""

    name: str
    flag: str
    """The name without dashes: `max-tokens`."""
    key: str
    """Its name in `run.json`."""
    written: str
    """How a user writes it: `--max-tokens`, `--code seconds`."""
    info: FieldInfo
    option: Option
    model: type[BaseModel]

    @property
    def names(self) -> set[str]:
        """Its names on the command line."""
        return {self.flag, self.option.also} - {""}

    @property
    def help(self) -> str:
        """The help text on one line, with the names of the model's `agents`."""
        agents = ", ".join(getattr(self.model, "agents", ()))
        text = (self.info.description or "").replace("{agents}", f" ({agents})" if agents else "")
        return " ".join(text.split())

    @property
    def default(self) -> Setting:
        """Its default value as on the command line; None if there is none."""
        value = None if self.info.is_required() else self.info.get_default(call_default_factory=True)
        return int(value) if isinstance(value, float) and value.is_integer() else as_setting(value)


def options(model: type[BaseModel], use: Use | None = None) -> Iterator[OptionField]:
    """The options of a settings model, all or those for a use, in the order of its fields."""
    return iter([field for field in _options(model) if use is None or use in field.option.for_])


@lru_cache(maxsize=64)
def _options(model: type[BaseModel]) -> tuple[OptionField, ...]:
    fields = (option_of(model, name) for name in model.model_fields)
    return tuple(field for field in fields if field is not None)


@lru_cache(maxsize=4096)
def option_of(model: type[BaseModel], name: str) -> OptionField | None:
    """The option of a field; None for a field that is none."""
    info = model.model_fields[name]
    mark = next((mark for mark in info.metadata if isinstance(mark, Option)), None)
    if mark is None:
        return None
    flag = mark.flag or name.replace("_", "-")
    return OptionField(name, flag, mark.key or flag, f"--{mark.part or flag}", info, mark, model)


def values(settings: BaseModel, *kinds: Storage) -> dict[str, Setting]:
    """The values of a run's options of these kinds, by key, as in `run.json`. A setting without what it needs is None,
    and so is another option with its default value.
    """
    result: dict[str, Setting] = {}
    for run_option in options(type(settings), "run"):
        if run_option.option.storage in kinds:
            value = as_setting(getattr(settings, run_option.name))
            plain = run_option.option.storage != "setting" and value == run_option.default
            result[run_option.key] = None if plain or _missing(settings, run_option) else value
    return result


def refuse_idle(settings: BaseModel) -> None:
    """Raise UserError for an option that is set and does nothing together with the others: the user expects one."""
    for name in sorted(settings.model_fields_set):
        field = option_of(type(settings), name)
        if field is None or not _is_set(settings, name):
            continue
        if field.option.refused and (missing := _missing(settings, field)):
            raise UserError(f"{field.written} needs {missing}")
        if excluded := next((name for name in field.option.without.split() if _is_set(settings, name)), None):
            raise UserError(
                f"{field.written} and --{excluded.replace('_', '-')} exclude each other: leave one of them out"
            )


def _is_set(settings: BaseModel, name: str) -> bool:
    value = as_setting(getattr(settings, name, None))
    return value is not None and value is not False


def _missing(settings: BaseModel, field: OptionField) -> str:
    """How to set what an option needs and is missing; empty if nothing is missing."""
    missing = next((name for name in field.option.needs.split() if not getattr(settings, name)), "")
    return missing and getattr(settings, "ways", {}).get(missing, f"--{missing.replace('_', '-')}")


def stated(settings: BaseModel) -> dict[str, Any]:
    """The fields that were set, with their values."""
    return {name: getattr(settings, name) for name in settings.model_fields_set}


def addresses(settings: BaseModel) -> list[str]:
    """The keys of the places of a run that are addresses."""
    places = (field for field in options(type(settings), "run") if field.option.storage == "place")
    return [field.key for field in places if field.option.kind == "address"]


def as_setting(value: Any) -> Setting:
    """A value in the format of `run.json` and of a command line."""
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or None
    if isinstance(value, list):
        return [str(element) for element in value] or None
    if isinstance(value, dict):
        return [f"{name}={_as_text(element)}" for name, element in sorted(value.items())] or None
    if isinstance(value, str | int | float) or value is None:
        return value
    return str(value)


def _as_text(value: object) -> str:
    """A value of NAME=VALUE: JSON, or a text that is not valid JSON. A value without a JSON format becomes the name of
    its type.
    """
    if not has_json_form(value):
        return f"({type(value).__name__})"
    if isinstance(value, str):
        try:
            json.loads(value)
        except ValueError:
            return value
    return json.dumps(value, ensure_ascii=False)


def as_words(fields: Iterable[OptionField], settings: Mapping[str, Setting]) -> Iterator[str]:
    """Settings by key as words of a command line that has these options, with their current names. Facts that are not
    options (digests, versions, `all-writes`) are left out.
    """
    now = {name: field for field in fields for name in (field.key, *field.names)}
    written: dict[str, Setting] = {}
    for key, value in settings.items():
        field = now.get(key)
        if field is None or value is None or value is False:
            continue
        flag = field.flag
        if field.option.part:
            flag, name = field.option.part.split()
            value = f"{written[flag]},{name}={value}" if flag in written else f"{name}={value}"
        written[flag] = value
    for flag, value in written.items():
        for text in value if isinstance(value, list) else [value]:
            yield from [f"--{flag}"] if text is True else [f"--{flag}", str(text)]


def _split(value: object) -> object:
    """Split `a,b` from a command line. Any other format is left to pydantic."""
    if not isinstance(value, str):
        return value
    parts = tuple(part.strip() for part in value.split(",") if part.strip())
    if not parts:
        raise ValueError("is empty and selects nothing; to select everything, leave the option out")
    return parts


Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""Several names in one option, separated by commas."""


def by_field(fields: Iterable[OptionField], values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by field. A keyword is a field's name, its flag, or its second flag."""
    fields = list(fields)
    names = {flag.replace("-", "_"): field.name for field in fields for flag in (field.flag, field.option.also)}
    names |= {field.name: field.name for field in fields}
    return {names.get(name, name): value for name, value in values.items()}


def checked(model: type[M], values: Mapping[str, Any], place: str = "") -> M:
    """A settings model from outside values by keyword. Raises UserError for an invalid option."""
    from pydantic import ValidationError

    from refsol.schema import fault_text

    try:
        return model(**by_field(options(model), values))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0]) if first["loc"] else ""
        fields = {field.name: field for field in options(model)}
        if first["type"] == "extra_forbidden":
            raise UserError(f"{place}{name}: unknown option.{did_you_mean(name, fields)}") from None
        written = fields[name].written if name in fields else f"--{name.replace('_', '-')}"
        text = fault_text(first)
        if first["type"] == "missing":
            raise UserError(f"{place}{written} is needed: {fields[name].help if name in fields else ''}") from None
        if text.startswith("is empty"):
            raise UserError(f"{place}{written} {text}") from None
        raise UserError(f"{place}{written}: {text} (given: {first['input']!r})") from None


def plain_type(annotation: Any) -> Any:
    """The annotation without its marks and without `None`, as a command line parses it."""
    if get_origin(annotation) is Annotated:
        return plain_type(get_args(annotation)[0])
    arguments = [argument for argument in get_args(annotation) if argument is not type(None)]
    if type(None) in get_args(annotation) and len(arguments) == 1:
        return plain_type(arguments[0])
    return annotation
