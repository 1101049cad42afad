"""A FHIR server as tools: capabilities, search, read and, if writes are executed, create.

Search parameters reach the server unchanged, except that each value is URL-escaped. An answer over the limit is not
truncated: the model gets its size and advice on how to ask for less.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlencode

from medagent.core.errors import FhirUnavailableError
from medagent.fhir_data.record import EhrSession, FhirRequest, Reply, TooMuchError, diagnostics
from medagent.fhir_episodes.fhir_base import FhirBase
from medagent.fhir_episodes.requests_words import ActionError
from medagent.integrations.mcp._offer import NOBODY, TOOLS, Caller, OfferedTool, ToolAnswer

COUNT = 20
"""Matches on a page if the search does not set `_count`."""
MOST = 60_000
"""The longest answer that is passed on, in bytes: about 20,000 tokens."""
CAPABILITIES, SEARCH, READ, CREATE = (
    TOOLS[name] for name in ("fhir_capabilities", "fhir_search", "fhir_read", "fhir_create")
)


class FhirOffer:
    """The tools over one view of a record. Response bodies show `base`. `writes`: whether resources can be created;
    `remote`: whether the record is on another server.
    """

    def __init__(self, ehr: EhrSession, base: str, *, writes: bool, remote: bool = False) -> None:
        self._ehr = ehr
        self.remote = remote
        self._base = FhirBase(base)
        self.tools: Sequence[OfferedTool] = (CAPABILITIES, SEARCH, READ, *([CREATE] if writes else []))
        allowed = "and created in" if writes else "(it cannot be written to)"
        self.instructions = f"A FHIR R4 server to be searched and read {allowed}: {base}"

    async def leave(self, session: str) -> None:
        """See `Offer.leave`. Created resources stay."""

    async def call(self, name: str, arguments: dict[str, Any], caller: Caller = NOBODY) -> ToolAnswer:
        try:
            if name == CAPABILITIES.name:
                return await self._capabilities(arguments.get("type"))
            if name == CREATE.name:
                resource = arguments["resource"]
                sent = json.dumps(resource, ensure_ascii=False)
                return _bounded(await self._ehr.write(FhirRequest("POST", f"/{resource['resourceType']}", sent)))
            return _bounded(await self._ehr.get(self._target(name, arguments)))
        except (ActionError, TooMuchError, FhirUnavailableError) as error:
            return ToolAnswer(str(error), failed=True)

    def _target(self, name: str, arguments: dict[str, Any]) -> str:
        """The path below the base with its query. Raises ActionError."""
        if name == READ.name:
            elements = ",".join(arguments.get("elements", []))
            query = f"?{urlencode({'_elements': elements})}" if elements else ""
            return f"/{arguments['type']}/{arguments['id']}{query}"
        if "next" in arguments:
            if len(arguments) > 1:
                raise ActionError("pass only `next`, which contains the search")
            return self._base.target(arguments["next"])
        if "type" not in arguments:
            raise ActionError("pass a type and parameters, or only `next`")
        pairs = list(_pairs(arguments.get("parameters", {})))
        if not any(name == "_count" for name, _ in pairs):
            pairs.append(("_count", str(COUNT)))
        return f"/{arguments['type']}?{urlencode(pairs)}"

    async def _capabilities(self, kind: str | None) -> ToolAnswer:
        reply = await self._ehr.get("/metadata")
        if not reply.ok:
            return _bounded(reply)
        rest = next(iter(json.loads(reply.text).get("rest") or [{}]))
        listed = {resource.get("type"): resource for resource in rest.get("resource", [])}
        if kind is None:
            return ToolAnswer(json.dumps({"types": sorted(listed)}))
        if kind not in listed:
            return ToolAnswer(
                f"the server does not support {kind}; it supports {', '.join(sorted(listed))}", failed=True
            )
        resource = listed[kind]
        names = {
            search_param["name"]: search_param["type"]
            for search_param in [*rest.get("searchParam", []), *resource.get("searchParam", [])]
        }
        capabilities = {
            "type": kind,
            "interactions": [interaction.get("code") for interaction in resource.get("interaction", [])],
            "searchParameters": names,
            "includes": resource.get("searchInclude", []),
        }
        return ToolAnswer(json.dumps(capabilities))


def _pairs(parameters: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in parameters.items():
        for element in value if isinstance(value, list) else [value]:
            yield name, json.dumps(element) if isinstance(element, bool | int | float) else element


def _bounded(reply: Reply) -> ToolAnswer:
    """The server's answer as JSON in one line, or, if it is over the limit, how to ask for less."""
    if not reply.ok:
        return ToolAnswer(f"HTTP status {reply.status}. {diagnostics(reply)}", failed=True)
    try:
        text = json.dumps(json.loads(reply.text), ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        text = reply.text
    size = len(text.encode("utf-8", "replace"))
    if size > MOST:
        return ToolAnswer(
            f"The answer is {size:,} bytes long; {MOST:,} are passed on. Ask for less: a smaller _count, single "
            "elements (_elements=id,code,value), _summary=true, or more conditions.",
            failed=True,
        )
    return ToolAnswer(text)
