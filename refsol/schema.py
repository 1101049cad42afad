"""Validators for `refsol.files` from pydantic models, with messages in the terms of the file's format."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from refsol.files import Fault, FaultsError, Steps, Validator

T = TypeVar("T")

_WORDS = {
    "bool_parsing": "is not true or false",
    "bool_type": "is not true or false",
    "dataclass_type": "is not a JSON object",
    "dict_type": "is not a JSON object",
    "extra_forbidden": "is a field that the format does not have",
    "finite_number": "is not a finite number",
    "float_parsing": "is not a number",
    "float_type": "is not a number",
    "int_from_float": "is not a whole number",
    "int_parsing": "is not a whole number",
    "int_type": "is not a whole number",
    "list_type": "is not a list",
    "missing": "is missing",
    "model_attributes_type": "is not a JSON object",
    "model_type": "is not a JSON object",
    "none_required": "is not null",
    "string_type": "is not a text",
    "string_unicode": "is not Unicode",
    "tuple_type": "is not a list",
}
"""Messages by pydantic error type."""


_BOUNDS = {
    "greater_than": ("gt", "is not above"),
    "greater_than_equal": ("ge", "is below"),
    "less_than": ("lt", "is not below"),
    "less_than_equal": ("le", "is above"),
}
"""pydantic's error types about limits: the name of the limit, and the words before it."""


def validator(kind: type[T]) -> Validator[T]:
    """The validator of a pydantic model, or of any type that pydantic knows."""
    adapter = TypeAdapter(kind)

    def validate(value: Any) -> T:
        try:
            return adapter.validate_python(value)
        except ValidationError as error:
            raise FaultsError(faults(error, value)) from None

    return validate


def faults(error: ValidationError, value: Any) -> list[Fault]:
    """All faults of a value, one per place."""
    texts: dict[Steps, list[str]] = {}
    for detail in error.errors(include_url=False):
        texts.setdefault(_steps(detail, value), []).append(fault_text(detail))
    return [Fault(_joined(different), steps) for steps, different in texts.items()]


def fault_text(error: ErrorDetails) -> str:
    """A pydantic error as a plain message."""
    if error["type"] in _WORDS:
        return _WORDS[error["type"]]
    context = error.get("ctx", {})
    if error["type"] in ("literal_error", "enum"):
        return f"is not {context['expected']}"
    if error["type"] in ("value_error", "assertion_error"):
        return str(context.get("error", error["msg"]))
    if error["type"] in _BOUNDS:
        bound, words = _BOUNDS[error["type"]]
        return f"{words} {context[bound]:g}"
    message = error["msg"].removeprefix("Input ")
    return f"{message[0].lower()}{message[1:]}"


def _steps(error: ErrorDetails, value: Any) -> Steps:
    """The path in the value, without the extra steps that pydantic adds for each branch of a union."""
    steps = []
    for step in error["loc"]:
        is_index = isinstance(value, list) and step in range(len(value))
        if is_index or (isinstance(value, dict) and step in value):
            value = value[step]
            steps.append(step)
    if error["type"] == "missing":
        steps.append(error["loc"][-1])
    return tuple(steps)


def _joined(texts: list[str]) -> str:
    """The messages of all branches of a union as one: `is not a text or a whole number`."""
    different = list(dict.fromkeys(texts))
    forms = [text.removeprefix("is not ") for text in different]
    if all(text.startswith("is not ") for text in different):
        return f"is not {' or '.join(forms)}"
    return "; ".join(different)
