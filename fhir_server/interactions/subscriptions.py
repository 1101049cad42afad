"""Subscriptions: checks them when they are stored, and finds the resources that match their criteria.

Only a server on a port with `--allow-hook` sends notifications, by rest-hook. Any other server refuses a requested or
active Subscription, since it would never send its notifications. If HAPI refuses the same Subscription, the message is
HAPI's (observed in HAPI FHIR 7.6.0).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from fhir_server.errors import FhirError
from fhir_server.interactions.context import ServerContext, StoredLibrary
from fhir_server.search.parameters import resource_types
from fhir_server.search.plan import MAX_IDS, Planned, matches, plan
from fhir_server.search.query import parse
from fhir_server.store import Version
from fhir_server.wire.http import Pairs, parse_query
from fhir_server.wire.json_text import decode
from fhir_server.wire.json_values import Json

WAITING = ("requested", "active")
"""The statuses of Subscriptions that get notifications."""
PAYLOADS = ("application/fhir+json", "application/json", "application/fhir+xml", "application/xml")


@dataclass(frozen=True, slots=True)
class Hook:
    """An active Subscription by rest-hook. Without a `payload`, its notifications are sent without a body."""

    id: str
    criteria: str
    endpoint: str
    payload: str
    headers: tuple[str, ...]

    @property
    def address(self) -> SplitResult:
        """The parts of the endpoint's URL."""
        return urlsplit(self.endpoint)


def checked(server: ServerContext, resource: Json) -> Json:
    """A Subscription to store. A requested one becomes active at once.

    Raises:
        FhirError: 422. It is invalid, or this server cannot send its notifications.
    """
    if "status" not in resource:
        problem = "Can not process submitted Subscription - Subscription.status must be populated on this server"
        raise FhirError(422, f"HAPI-0008: {problem}")
    if resource["status"] not in WAITING:
        return resource
    if not server.hooks:
        problem = "This server delivers no notifications: it stores a Subscription only with the status off or error"
        raise FhirError(422, f"{problem} (medagent serve --allow-hook HOST delivers to that host)", "not-supported")
    _check_criteria(server, resource.get("criteria", ""))
    _check_channel(server, resource.get("channel", {}))
    return {**resource, "status": "active"}


def _check_criteria(server: ServerContext, criteria: str) -> None:
    if not criteria:
        raise FhirError(422, "HAPI-0011: Subscription.criteria must be populated")
    if not criteria.startswith("[") and "?" not in criteria:
        raise FhirError(422, 'HAPI-0014: Subscription.criteria must be in the form "{Resource Type}?[params]"')
    for kind, pairs in _searches(criteria):
        if kind not in resource_types():
            problem = f"Subscription.criteria contains invalid/unsupported resource type: {kind}"
            raise FhirError(422, f"HAPI-0013: {problem}")
        try:
            _planned(server, kind, pairs, ())
        except FhirError as error:
            problem = f"Invalid subscription criteria submitted: {criteria} {error.diagnostics}"
            raise FhirError(422, f"HAPI-0009: {problem}") from None


def _check_channel(server: ServerContext, channel: Json) -> None:
    kind, endpoint = channel.get("type"), channel.get("endpoint")
    if kind is None:
        raise FhirError(422, "HAPI-0020: Subscription.channel.type must be populated")
    if kind != "rest-hook":
        raise FhirError(422, f"This server delivers notifications by rest-hook only, not by {kind}", "not-supported")
    if not endpoint:
        raise FhirError(422, "HAPI-0021: Rest-hook subscriptions must have Subscription.channel.endpoint defined")
    payload = channel.get("payload", "")
    if payload and payload.partition(";")[0] not in PAYLOADS:
        raise FhirError(422, f"HAPI-1985: Invalid value for Subscription.channel.payload: {payload}")
    if not allowed(server, endpoint):
        problem = f"{endpoint} is not an http address of a host that --allow-hook names"
        raise FhirError(422, f"This server delivers no notifications there: {problem}", "not-supported")


def allowed(server: ServerContext, endpoint: str) -> bool:
    """Whether notifications may be sent to a URL: it is an HTTP URL, and `--allow-hook` lists its host."""
    try:
        parts = urlsplit(endpoint)
        return parts.scheme in ("http", "https") and parts.port != 0 and parts.hostname in server.hooks
    except ValueError:
        return False


def hooks(server: ServerContext) -> list[Hook]:
    """The active Subscriptions by rest-hook."""
    active = []
    for text in server.store.texts("Subscription"):
        resource = decode(text)
        channel = resource.get("channel", {})
        if resource.get("status") in WAITING and channel.get("type") == "rest-hook":
            endpoint, payload = channel.get("endpoint", ""), channel.get("payload", "")
            headers = tuple(channel.get("header", ()))
            active.append(Hook(resource["id"], resource.get("criteria", ""), endpoint, payload, headers))
    return active


def matching_versions(server: ServerContext, hook: Hook, rows: Sequence[Version]) -> list[Version]:
    """The resources among these versions that match the criteria of a Subscription now."""
    matching: list[Version] = []
    for kind, pairs in _searches(hook.criteria):
        ids = [row.id for row in rows if row.type == kind]
        for start in range(0, len(ids), MAX_IDS):
            planned = _planned(server, kind, pairs, ids[start : start + MAX_IDS])
            matching += server.store.rows(matches(server.store, planned))
    return matching


def _searches(criteria: str) -> Iterator[tuple[str, Pairs]]:
    """The searches in criteria: `Type?parameters`, or HAPI's format for whole types (`[Type,Type]`, `[*]`)."""
    if criteria.startswith("["):
        named = criteria.strip("[] ")
        for kind in resource_types() if named == "*" else named.split(","):
            yield kind.strip(), ()
    else:
        kind, _, query = criteria.partition("?")
        yield kind, parse_query(query)


def _planned(server: ServerContext, kind: str, pairs: Pairs, ids: Sequence[str]) -> Planned:
    """The plan of a search among the resources with these ids (empty: all)."""
    only = (("_id", ",".join(ids)),) if ids else ()
    return plan(parse(server.store.registry, kind, (*pairs, *only)), server.store.registry, StoredLibrary(server))
