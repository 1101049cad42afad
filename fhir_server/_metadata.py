"""`metadata`: a CapabilityStatement that lists the server's interactions, parameters and operations."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from fhir_server.clock import instant
from fhir_server.interactions.context import RequestContext
from fhir_server.operations.table import offered
from fhir_server.search.parameters import ParameterRegistry, SearchParameter, resource_types
from fhir_server.search.query import FULLTEXT
from fhir_server.wire.http import Response
from fhir_server.wire.json_text import render
from fhir_server.wire.json_values import Json

INTERACTIONS = (
    "read",
    "vread",
    "update",
    "patch",
    "delete",
    "history-instance",
    "history-type",
    "create",
    "search-type",
)


def capability_statement(context: RequestContext) -> Response:
    """Answers `GET metadata`."""
    server = context.server
    text = _statement(context.base, server.reference_check, context.registry, server.exports is not None)
    text = text.replace("<now>", instant(context.now))
    return context.respond(200, text)


@lru_cache(maxsize=8)
def _statement(base: str, reference_check: bool, registry: ParameterRegistry, exports: bool) -> str:
    rest = {
        "mode": "server",
        "resource": [_resource(kind, reference_check, registry.parameters(kind), exports) for kind in resource_types()],
        "interaction": [{"code": "transaction"}, {"code": "batch"}, {"code": "history-system"}],
        "operation": [
            {"name": operation.name, "definition": operation.definition} for operation in offered("", exports=exports)
        ],
    }
    statement: Json = {
        "resourceType": "CapabilityStatement",
        "status": "active",
        "date": "<now>",
        "publisher": "fhir_server",
        "kind": "instance",
        "software": {"name": "fhir_server", "version": "1"},
        "implementation": {"description": "Embedded FHIR R4 server", "url": base},
        "fhirVersion": "4.0.1",
        "format": ["application/fhir+xml", "xml", "application/fhir+json", "json"],
        "patchFormat": ["application/json-patch+json", "application/fhir+json"],
        "rest": [rest],
    }
    return render(statement)


def _resource(kind: str, reference_check: bool, known: Mapping[str, SearchParameter], exports: bool) -> Json:
    references = [name for name, parameter in known.items() if parameter.kind == "reference"]
    resource: Json = {
        "type": kind,
        "profile": f"http://hl7.org/fhir/StructureDefinition/{kind}",
        "interaction": [{"code": code} for code in INTERACTIONS],
        "versioning": "versioned-update",
        "readHistory": True,
        "updateCreate": True,
        "conditionalCreate": True,
        "conditionalRead": "full-support",
        "conditionalUpdate": True,
        "conditionalDelete": "single",
        "referencePolicy": ["literal", "local", *(["enforced"] if reference_check else [])],
        "searchInclude": ["*", *(f"{kind}:{name}" for name in references)],
        "searchRevInclude": ["*"],
        "searchParam": [_parameter(name, parameter) for name, parameter in known.items() if name not in FULLTEXT],
    }
    operations = [
        {"name": operation.name, "definition": operation.definition} for operation in offered(kind, exports=exports)
    ]
    if operations:
        resource["operation"] = operations
    return resource


def _parameter(name: str, parameter: SearchParameter) -> Json:
    return {"name": name, "type": parameter.kind}
