"""What of a resource's `meta` is the client's own."""

from __future__ import annotations

from fhir_server.resources.normalise import Resource
from fhir_server.wire.json_values import Json


def labels(given: Resource, earlier: Resource) -> Resource:
    """The profiles, security labels and tags of a meta, the last two with those of an `earlier` one. HAPI keeps sets of
    them: of several with the same system and code the first counts.
    """
    found: Resource = {}
    if "profile" in given:
        found["profile"] = list(dict.fromkeys(given["profile"]))
    for name in ("security", "tag"):
        kept: dict[tuple[Json, Json], Json] = {}
        for item in (*earlier.get(name, []), *given.get(name, [])):
            kept.setdefault((item.get("system"), item.get("code")), item)
        if kept:
            found[name] = list(kept.values())
    return found
