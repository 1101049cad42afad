"""Small worlds: an embedded server with a few resources, in which the reads of an agent are repeated.

There is one empty server in a process. Each world is an overlay of it, so it is opened in microseconds.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from medagent.fhir_data.asking import TARGET
from refsol.clinical.sources import Resource
from refsol.history import HistoryMessage
from refsol.json_values import as_object, json_value
from refsol.reads import Read, reads_before_post

if TYPE_CHECKING:
    from fhir_server import Server
    from fhir_server.server import Overlay

_NOW = datetime(2023, 11, 13, 10, 15, tzinfo=UTC)
"""The clock of a world. It decides nothing, since each resource states its time."""
_TURN = threading.RLock()
"""A server is used in one thread at a time."""


class SmallWorld:
    """See `refsol.clinical.known.World`."""

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay
        self._base = overlay.base

    def put(self, resources: Iterable[Resource]) -> None:
        """Add resources. One that R4 does not allow is left out."""
        from fhir_server.errors import FhirError

        parts = [list(resources)]
        while parts:
            part = parts.pop(0)
            try:
                self._overlay.add(part)
            except FhirError:
                if len(part) > 1:
                    parts += [[resource] for resource in part]

    def get(self, url: str) -> Mapping[str, Any]:
        """The reply to a GET, at any base. An empty object for an error."""
        from fhir_server import Request

        base, target = split_base(url)
        self._overlay.base = base or self._base
        path = urlsplit(self._overlay.base).path
        accept = (("Accept", "application/fhir+json"),)
        address = f"{path}/{target}" if target[:1] not in ("", "?") else path + target
        response = self._overlay.handle(Request("GET", quote(address, safe=TARGET), accept))
        return as_object(json_value(response.body)) if response.status == 200 else {}


@contextmanager
def small_world() -> Iterator[SmallWorld]:
    """Opens an empty world."""
    with _TURN, _empty_server(os.getpid()).overlay("world", _NOW) as overlay:
        yield SmallWorld(overlay)


@lru_cache(maxsize=1)
def _empty_server(_process: int) -> Server:
    from fhir_server import Server

    return Server.open(None, reference_check=False)


def split_base(url: str) -> tuple[str, str]:
    """The FHIR base of a URL (empty if it is relative), and the rest, which begins with a resource type or with an
    interaction of the whole server, such as `_history`; without one, the query.
    """
    from fhir_server.definitions import is_resource_type

    address, question, query = url.partition("?")
    segments = address.split("/")
    begins = [is_resource_type(name) or name in ("_history", "metadata") for name in segments]
    place = begins.index(True) if True in begins else len(segments)
    base = "/".join(segments[:place])
    return base if "//" in base else "", "/".join(segments[place:]) + question + query


def reads_of(transcript: Sequence[HistoryMessage]) -> list[Read]:
    """The GETs of an episode before its first write. XML is read by the server's own parser."""
    return reads_before_post(transcript, _of_xml)


def _of_xml(text: str) -> Any:
    from fhir_server.errors import FhirError
    from fhir_server.wire.json_text import render
    from fhir_server.wire.xml import parse_xml

    try:
        return json.loads(render(parse_xml(text)))
    except FhirError as error:
        raise ValueError(str(error)) from None
