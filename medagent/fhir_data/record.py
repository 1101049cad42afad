"""The interface between a session and an EHR: reads and writes below the FHIR base.

An `Ehr` is opened once per run, an `EhrSession` once per episode. Only the embedded EHR has an overlay for each
episode, so only it can show what a POST that is merely acknowledged would have stored.
"""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from refsol.changes import Change
from refsol.clinical.sources import Amendment

JSON, JSON_PATCH = "application/fhir+json", "application/json-patch+json"


@dataclass(frozen=True, slots=True)
class Reply:
    """A server's reply: status, the body as text, and the reason phrase (HAPI sends none)."""

    status: int
    text: str
    reason: str = ""

    @property
    def ok(self) -> bool:
        """Whether the status is below 400 and not a redirect, which is never followed."""
        return self.status < 300


Order = Literal["stored", "shuffled"]
PAGE_SIZE = 20
"""The default number of results on a page."""


@dataclass(frozen=True, slots=True)
class Pages:
    """How the embedded server pages results: the size of a page without `_count`, and the order without `_sort`."""

    size: int = PAGE_SIZE
    order: Order = "stored"


@dataclass(frozen=True, slots=True)
class FhirRequest:
    """A request below the FHIR base. `conditions` are the headers `If-Match` and `If-None-Exist`. A patch is a JSON
    Patch if its body is a list, otherwise a FHIRPath Patch.
    """

    method: str
    target: str = ""
    body: str = ""
    conditions: tuple[tuple[str, str], ...] = ()

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """All headers, with the type of the body if the method has one."""
        if self.method in ("GET", "DELETE"):
            return self.conditions
        is_list = self.method == "PATCH" and self.body.lstrip().startswith("[")
        return ("Content-Type", JSON_PATCH if is_list else JSON), *self.conditions


def diagnostics(reply: Reply) -> str:
    """The diagnostics of an OperationOutcome, or the beginning of another body."""
    try:
        issues = json.loads(reply.text)["issue"]
        texts = [str(issue.get("diagnostics") or issue.get("details", {}).get("text", "")) for issue in issues]
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return reply.reason or reply.text[:500]
    return " ".join(text for text in texts if text)


ONLY_EMBEDDED = (
    "--fhir: twins and injected instructions need the embedded server, as do items with charts of their own; "
    "leave --fhir out"
)


class TooMuchError(Exception):
    """A request asks for more than is allowed; the text is the reply to the agent."""


class EhrSession(Protocol):
    """One episode's view of the EHR. `target` is the path below the FHIR base with its query, such as
    `/Patient?name=x`; bodies name the shown base instead of the server's own.

    All methods raise FhirUnavailableError if the server was unreachable after the retries, and TooMuchError if the
    answer is over the bounds; in that case the embedded server has not carried out the request.
    """

    @property
    def fixed(self) -> bool:
        """Whether nobody can change the data, so that a GET finds the same resources in all such episodes of a run."""

    def reset(self) -> None:
        """Start again with a fresh overlay; does nothing if the episode has no overlay."""

    async def get(self, target: str) -> Reply:
        """The server's reply to a GET."""

    async def write(self, request: FhirRequest) -> Reply:
        """The server's reply to a write."""

    def changes(self) -> list[Change] | None:
        """What the writes so far have changed, in the order of the first writes; None if only the server knows it."""

    async def preview(self, target: str, body: str) -> Reply | None:
        """The reply that the server would give to a POST, after the POSTs previewed before; no GET sees its effect.

        None if the server would have to carry out the POST.
        """


class Ehr(Protocol):
    """The FHIR data that sessions read."""

    async def check(self) -> None:
        """Raises UserError if the data cannot be read."""

    def session(self, seed: str, change: Amendment = (), chart: str = "") -> AbstractAsyncContextManager[EhrSession]:
        """An episode's view; all its random values derive from `seed`. `change` is the item's own change of the data,
        `chart` its further resources (NDJSON), as if the data had always been so. Only the embedded EHR can have these:
        others raise UserError.
        """
