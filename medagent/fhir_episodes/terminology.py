"""The operations on value sets and code systems, for benchmarks whose agents need them (`FhirBenchmark.terminology`).

Agents send them as GETs. With tools they are one tool, `fhir_expand`, whose argument `operation` says which one it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from medagent.models.base import Tool

NAME = "fhir_expand"
_FUNCTIONS = Path(__file__).parent / "prompts" / "terminology.json"
_PATHS = {
    "expand": "ValueSet/$expand",
    "validate-code": "ValueSet/$validate-code",
    "lookup": "CodeSystem/$lookup",
}
"""The path below the FHIR base of each operation."""


class TerminologyArgumentsError(ValueError):
    """The arguments of the tool do not state an operation; the text says why."""


@cache
def terminology_functions() -> list[dict[str, Any]]:
    """The operations, in the form of a protocol's function list."""
    functions: list[dict[str, Any]] = json.loads(_FUNCTIONS.read_text(encoding="utf-8"))
    return functions


@cache
def terminology_tool() -> Tool:
    """The operations as one tool."""
    functions = terminology_functions()
    lines = [
        f"{operation}: {function['description']} It needs {', '.join(function['parameters']['required'])}."
        for operation, function in zip(_PATHS, functions, strict=True)
    ]
    operation = {"type": "string", "enum": list(_PATHS), "description": " ".join(lines)}
    properties = {
        name: schema for function in functions for name, schema in function["parameters"]["properties"].items()
    }
    parameters = {
        "type": "object",
        "properties": {"operation": operation, **properties},
        "required": ["operation"],
    }
    return Tool(NAME, "Expands a value set, checks whether a code is in it, or shows the name of a code.", parameters)


def action_of_call(arguments: Mapping[str, Any], api_base: str) -> str:
    """The action of a call of the tool. Raises TerminologyArgumentsError."""
    operation = arguments.get("operation")
    path = _PATHS.get(operation) if isinstance(operation, str) else None
    if path is None:
        raise TerminologyArgumentsError(f"{NAME} takes `operation`, one of {', '.join(_PATHS)}")
    stated = {name: value for name, value in arguments.items() if name != "operation" and value is not None}
    return f"GET {api_base}/{path}?{urlencode(stated)}"


def call_of_url(url: str, api_base: str) -> tuple[str, dict[str, Any]] | None:
    """The tool and arguments of a GET: the inverse of `action_of_call`. None for any other GET."""
    path, _, query = url.strip().removeprefix(f"{api_base}/").partition("?")
    operation = next((name for name, known in _PATHS.items() if known == path), None)
    return None if operation is None else (NAME, {"operation": operation, **dict(parse_qsl(query))})
