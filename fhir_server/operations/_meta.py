"""`$meta`, `$meta-add` and `$meta-delete` of profiles, security labels and tags. They do not create versions."""

from __future__ import annotations

from collections.abc import Callable

from fhir_server.errors import FhirError
from fhir_server.interactions.context import RequestContext
from fhir_server.interactions.read import current
from fhir_server.interactions.write import body_resource, stored_rows
from fhir_server.resources.normalise import Resource, labels
from fhir_server.wire.http import Response
from fhir_server.wire.json_text import decode, render
from fhir_server.wire.json_values import Json

LABELS = ("profile", "security", "tag")


def meta(context: RequestContext, kind: str, resource_id: str) -> Response:
    """The meta of a resource, or the labels in use on a type or on the whole server."""
    if resource_id:
        return _answer(context, _own(current(context, kind, resource_id).resource["meta"]))
    where, values = ("type = ? AND", (kind,)) if kind else ("", ())
    sql = f"SELECT text FROM resources WHERE {where} text IS NOT NULL ORDER BY row_id"
    in_use: dict[str, list[Json]] = {}
    for (text,) in context.store.query(sql, values):
        head = text[: text.find("\n  }")]  # the meta is the first object of a text
        if not any(f'"{name}":' in head for name in LABELS):
            continue
        for name, items in decode(text)["meta"].items():
            if name in LABELS:
                listed = in_use.setdefault(name, [])
                listed += (item for item in items if item not in listed)
    return _answer(context, {name: in_use[name] for name in LABELS if name in in_use})


def meta_add(context: RequestContext, kind: str, resource_id: str) -> Response:
    """Adds the labels that the request names."""

    def merged(had: Resource, new: Resource) -> Resource:
        return labels({**new, "profile": [*had.get("profile", []), *new.get("profile", [])]}, had)

    return _change(context, kind, resource_id, merged)


def meta_delete(context: RequestContext, kind: str, resource_id: str) -> Response:
    """Removes the labels that the request names."""

    def without(had: Resource, removed: Resource) -> Resource:
        return {
            name: left
            for name in LABELS
            if (left := [label for label in had.get(name, []) if not _in(label, removed, name)])
        }

    return _change(context, kind, resource_id, without)


def _in(label: Json, removed: Resource, name: str) -> bool:
    """Whether a label is among a meta's labels; displays are ignored."""
    if name == "profile":
        return label in removed.get(name, [])
    return any(
        (label.get("system"), label.get("code")) == (gone.get("system"), gone.get("code"))
        for gone in removed.get(name, [])
    )


def _change(
    context: RequestContext, kind: str, resource_id: str, change: Callable[[Resource, Resource], Resource]
) -> Response:
    parameters = body_resource(context, "Parameters", "EXTENDED_OPERATION_INSTANCE")
    posted = next(
        (parameter["valueMeta"] for parameter in parameters.get("parameter", []) if "valueMeta" in parameter), None
    )
    if posted is None:
        raise FhirError(400, "HAPI-0554: Input contains no parameter with name 'meta'")
    with context.store.transaction():
        row = current(context, kind, resource_id)
        resource = row.resource
        rest = {name: value for name, value in resource["meta"].items() if name not in LABELS}
        changed = change(resource["meta"], posted)
        resource["meta"] = rest | {name: changed[name] for name in LABELS if changed.get(name)}
        new = row._replace(text=render(resource))
        context.store.revise(row, stored_rows(context, row), new, stored_rows(context, new))
    return _answer(context, _own(resource["meta"]))


def _own(stored: Resource) -> Resource:
    """A meta without its source, which HAPI omits here."""
    return {name: value for name, value in stored.items() if name != "source"}


def _answer(context: RequestContext, shown: Resource) -> Response:
    parameter = {"name": "return", "valueMeta": shown} if shown else {"name": "return"}
    return context.respond(200, render({"resourceType": "Parameters", "parameter": [parameter]}))
