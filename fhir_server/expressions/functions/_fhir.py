"""Functions that know FHIR, types, and the time."""

from __future__ import annotations

from decimal import Decimal

from fhir_server.expressions.errors import FhirPathError
from fhir_server.expressions.functions._collections import Arguments
from fhir_server.expressions.node import TYPE_INFO, Node, Nodes, computed, is_type, keys
from fhir_server.expressions.scope import Scope, Signature, argument, text
from fhir_server.expressions.values import Moment
from fhir_server.resources.narrative import is_valid_div

_DEFINITION = "http://hl7.org/fhir/StructureDefinition/"


def of_type(focus: Nodes, type_name: str) -> Nodes:
    """The nodes of a type. An Age is a Quantity, a code is not a string, and `Integer` is a type of FHIR here."""
    if type_name[:1].isupper() and "." not in type_name:
        focus = [node for node in focus if not node.is_system or isinstance(node.value, dict)]
    return [node for node in focus if is_type(node, type_name, exactly=not isinstance(node.value, dict))]


def as_type(focus: Nodes, type_name: str) -> Nodes:
    """The nodes of exactly a type. As in HAPI, there may be several, and `DateTime` is `dateTime` too."""
    small = type_name[:1].lower() + type_name[1:]
    return [
        node
        for node in focus
        if is_type(node, type_name, exactly=True) or (not node.is_system and node.type_name == small)
    ]


def is_of_type(focus: Nodes, type_name: str) -> Nodes:
    """Whether one node is of a type, or of one derived from it; empty for several, as in HAPI."""
    return [computed(is_type(focus[0], type_name))] if len(focus) == 1 else []


def _resolve(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    references = (node.value.get("reference") if isinstance(node.value, dict) else node.value for node in focus)
    targets = (scope.environment.resolve(reference) for reference in references if isinstance(reference, str))
    return [node for node in targets if node is not None]


def _extension(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    url = text(argument(arguments, 0, scope), scope)
    extensions = [extension for node in focus for extension in node.child("extension")]
    scope.spend(len(extensions))
    return [node for node in extensions if isinstance(node.value, dict) and node.value.get("url") == url]


def _type(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    types: Nodes = []
    for node in focus:
        namespace = "System" if node.is_system else "FHIR"
        types.append(Node({"namespace": namespace, "name": node.type_name.removeprefix("System.")}, TYPE_INFO))
    return types


def _conforms_to(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    url = text(argument(arguments, 0, scope), scope) or ""
    name = url.removeprefix(_DEFINITION)
    if name == url or not keys(name):
        raise FhirPathError(f"conformsTo() knows only the types of FHIR R4, not {url}")
    return [computed(node.type_name == name) for node in focus[:1]]


def _html_checks(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    return [computed(is_valid_div(str(node.value))) for node in focus[:1]]


def _now(kind: str) -> Signature:
    def run(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
        now = scope.environment.now()
        delta = now.utcoffset()
        date = (now.year, now.month, now.day)
        clock = (now.hour, now.minute, Decimal(now.second))
        match kind:
            case "Date":
                return [computed(Moment(kind, date))]
            case "Time":
                return [computed(Moment(kind, clock))]
        offset = 0 if delta is None else int(delta.total_seconds()) // 60
        return [computed(Moment(kind, (*date, *clock), offset))]

    return Signature(run)


FUNCTIONS: dict[str, Signature] = {
    "resolve": Signature(_resolve),
    "extension": Signature(_extension, 1, 1),
    "hasValue": Signature(lambda focus, arguments, scope: [computed(len(focus) == 1 and focus[0].has_value)]),
    "getValue": Signature(lambda focus, arguments, scope: [node for node in focus[:1] if node.has_value]),
    "type": Signature(_type),
    "conformsTo": Signature(_conforms_to, 1, 1),
    "htmlChecks": Signature(_html_checks),
    "today": _now("Date"),
    "now": _now("DateTime"),
    "timeOfDay": _now("Time"),
}
