"""All writes of FHIR as actions: how a message states one, and the tools for them.

A message is `PUT url` (or POST, PATCH, DELETE), then optional lines `If-Match:` and `If-None-Exist:`, then JSON. The
published protocol knows only POST to a type; the others exist only in episodes that carry out all writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from medagent.fhir_episodes.fhir_base import is_type
from medagent.models.base import Tool
from refsol.json_values import json_value

_ACTION = re.compile(r"(POST|PUT|PATCH|DELETE)[ \t]*([^\n]*)")
_CONDITION = re.compile(r"\n[ \t]*(If-Match|If-None-Exist)[ \t]*:([^\n]*)", re.IGNORECASE)
_NAMES = {"if-match": "If-Match", "if-none-exist": "If-None-Exist"}
_TOOLS = Path(__file__).parent / "prompts" / "write_tools.json"
_CREATE, _UPDATE, _PATCH, _DELETE = "fhir_create", "fhir_update", "fhir_patch", "fhir_delete"
_METHODS = {"POST": _CREATE, "PUT": _UPDATE, "PATCH": _PATCH, "DELETE": _DELETE}


@dataclass(frozen=True, slots=True)
class StatedWrite:
    """A write as an agent states it; `url` is not checked."""

    method: str
    url: str
    body: str = ""
    conditions: tuple[tuple[str, str], ...] = ()

    @property
    def action(self) -> str:
        """The write as the text of a message."""
        lines = [f"{self.method} {self.url}", *(f"{name}: {value}" for name, value in self.conditions)]
        return "\n".join(lines if self.method == "DELETE" else [*lines, self.body])

    def creates(self, target: str) -> bool:
        """Whether it is a plain creation: a POST to a type, without conditions."""
        return self.method == "POST" and not self.conditions and is_type(target.partition("?")[0])


def stated_write(action: str) -> StatedWrite | None:
    """The write that a message states; None if it states another action."""
    match = _ACTION.match(action)
    if match is None:
        return None
    conditions, end = [], match.end()
    while (line := _CONDITION.match(action, end)) is not None:
        conditions.append((_NAMES[line[1].lower()], line[2].strip()))
        end = line.end()
    return StatedWrite(match[1], match[2].strip(), action[end:].strip(), tuple(conditions))


class WriteArgumentsError(ValueError):
    """The arguments of a tool do not state a write; the text says why."""


@cache
def write_tools() -> Mapping[str, Tool]:
    """The tools for all writes, by name."""
    return {tool["name"]: Tool(**tool) for tool in json.loads(_TOOLS.read_text(encoding="utf-8"))}


def write_of_call(name: str, arguments: Mapping[str, Any], api_base: str) -> StatedWrite:
    """The write of a call of one of the tools. Raises WriteArgumentsError."""
    method = next(method for method, tool in _METHODS.items() if tool == name)
    resource = arguments.get("resource")
    if name in (_CREATE, _UPDATE):
        if not isinstance(resource, dict) or not isinstance(resource.get("resourceType"), str):
            raise WriteArgumentsError(f"{name} takes `resource`, a FHIR resource as a JSON object")
        stated: Mapping[str, Any] = {"type": resource["resourceType"], "id": resource.get("id"), "patch": resource}
    else:
        stated = arguments
    kind, resource_id, body = stated.get("type"), stated.get("id"), stated.get("patch")
    if not isinstance(kind, str) or (name == _PATCH and not isinstance(body, list | dict)):
        needs = "`type` and `patch`, a list or a Parameters resource" if name == _PATCH else "`type`, a text"
        raise WriteArgumentsError(f"{name} takes {needs}")
    place = quote(kind, safe="$_")
    search = arguments.get("search")
    if name != _CREATE:
        if isinstance(search, str) == isinstance(resource_id, str) and not (
            name == _UPDATE and isinstance(search, str)
        ):
            raise WriteArgumentsError(f"{name} takes an id or `search`, a text")
        place += f"?{search}" if isinstance(search, str) else f"/{quote(str(resource_id), safe='')}"
    headers = (("If-Match", arguments.get("if_match")), ("If-None-Exist", arguments.get("if_none_exist")))
    conditions = tuple((header, _line(value)) for header, value in headers if value is not None)
    text = "" if name == _DELETE else json.dumps(body, ensure_ascii=False)
    return StatedWrite(method, f"{api_base}/{place}", text, conditions)


def call_of_write(stated: StatedWrite, api_base: str) -> tuple[str, dict[str, Any]] | None:
    """The tool and arguments of a write: the inverse of `write_of_call`. None if no tool states it."""
    place, _, search = stated.url.removeprefix(f"{api_base}/").partition("?")
    kind, _, resource_id = place.partition("/")
    body = json_value(stated.body)
    names = {"If-Match": "if_match", "If-None-Exist": "if_none_exist"}
    more: dict[str, Any] = {names[header]: value for header, value in stated.conditions}
    if search:
        more["search"] = search
    name = _METHODS[stated.method]
    if name in (_CREATE, _UPDATE):
        return (name, {"resource": body, **more}) if isinstance(body, dict) and kind else None
    named = {
        "type": kind,
        **({"id": resource_id} if resource_id else {}),
        **({"patch": body} if name == _PATCH else {}),
        **more,
    }
    return (name, named) if kind else None


def _line(value: Any) -> str:
    """The value of a header: one line."""
    return " ".join(str(value).split())
