"""`$expand`, `$lookup`, `$validate-code`, `$subsumes` and `$translate`, over stored and HL7's code systems."""

from __future__ import annotations

from fhir_server.clock import instant
from fhir_server.errors import FhirError
from fhir_server.interactions.context import RequestContext, StoredLibrary
from fhir_server.interactions.read import current
from fhir_server.operations._parameters import Arguments, answer
from fhir_server.search.query import whole
from fhir_server.terminology import UCUM, Coded, Concept, NotExpandable, by_grammar, concepts, contains, expand
from fhir_server.wire.http import Response, escape
from fhir_server.wire.json_text import decode, render
from fhir_server.wire.json_values import Json

MOST_CODES = 1000
"""The most codes in an answer; of a larger expansion, the first ones are returned."""


def _named(context: RequestContext, kind: str, resource_id: str, arguments: Arguments, name: str) -> Json:
    """The resource that an operation uses: from the path, from the body, or by its URL."""
    if resource_id:
        return current(context, kind, resource_id).resource
    inline = arguments.value(name[0].lower() + name[1:]) if arguments.body is None else arguments.body
    if isinstance(inline, dict):
        return inline
    url = arguments.text("url").partition("|")[0]
    if not url:
        return None
    library = StoredLibrary(context.server)
    return library.value_set(url) if kind == "ValueSet" else library.code_system(url)


def expand_value_set(context: RequestContext, kind: str, resource_id: str) -> Response:
    """`$expand`: the codes of a value set, by `filter`, `offset` and `count`."""
    arguments = Arguments(context)
    value_set = _named(context, kind, resource_id, arguments, kind)
    if value_set is None:
        url = arguments.text("url")
        if not url:
            problem = "$expand operation at the type level (no ID specified) requires a url or a valueSet as a part of"
            raise FhirError(400, f"HAPI-1133: {problem} the request.")
        raise FhirError(404, f"HAPI-2024: Unknown ValueSet: {escape(url)}")
    try:
        codes = expand(value_set, StoredLibrary(context.server))
    except NotExpandable as error:
        raise FhirError(412, f"HAPI-0888: {error}") from error
    part = arguments.text("filter").lower()
    if part:
        codes = [code for code in codes if part in (code.display or "").lower()]
    offset = max(whole("offset", arguments.text("offset")) or 0, 0)
    count = whole("count", arguments.text("count"))
    shown = codes[offset : offset + (MOST_CODES if count is None else max(count, 0))]
    expansion = {
        "identifier": context.server.ids.uuid(),
        "timestamp": instant(context.now),
        "total": len(codes),
        "offset": offset,
        "parameter": [
            {"name": "offset", "valueInteger": offset},
            {"name": "count", "valueInteger": MOST_CODES if count is None else count},
        ],
        "contains": [_contained(coded) for coded in shown],
    }
    head = {key: value_set[key] for key in ("id", "url", "version", "status", "compose") if key in value_set}
    return context.respond(200, render({"resourceType": "ValueSet", **head, "expansion": expansion}))


def _contained(coded: Coded) -> Json:
    return {"system": coded.system, "code": coded.code} | ({"display": coded.display} if coded.display else {})


def lookup(context: RequestContext, kind: str, resource_id: str) -> Response:
    """`$lookup`: the code system's name and its display of a code."""
    arguments = Arguments(context)
    codings = arguments.codings()
    if not codings:
        raise FhirError(400, "HAPI-1126: No code, coding, or codeableConcept provided to validate")
    system, code = codings[0]
    if by_grammar(system, code):
        shown = {"valueString": code} if system == UCUM else {}  # HAPI knows a name for each unit, this server does not
        return answer(context, [{"name": "display", **shown}, {"name": "abstract", "valueBoolean": False}])
    code_system = StoredLibrary(context.server).code_system(system)
    concept = concepts(code_system).get(code) if code_system is not None else None
    if code_system is None or concept is None:
        raise FhirError(404, f"HAPI-1738: Unable to find code[{code}] in system[{system}]")
    listed = [{"name": name, "valueString": code_system[name]} for name in ("name", "version") if name in code_system]
    if concept.display:
        listed.append({"name": "display", "valueString": concept.display})
    return answer(context, [*listed, {"name": "abstract", "valueBoolean": False}])


def validate_code(context: RequestContext, kind: str, resource_id: str) -> Response:
    """`$validate-code`: whether a value set or a code system contains a code."""
    arguments = Arguments(context)
    codings = arguments.codings()
    if not codings:
        raise FhirError(400, "HAPI-0899: No code, coding, or codeableConcept provided to validate")
    named = _named(context, kind, resource_id, arguments, kind)
    url = str(arguments.text("url") or (named or {}).get("url", ""))
    message = ""
    for system, code in codings:
        concept, message = (
            _of_code_system(named, url, code)
            if kind == "CodeSystem"
            else _of_value_set(context, named, url, system, code)
        )
        if not message:
            listed: list[Json] = [{"name": "result", "valueBoolean": True}]
            if concept and concept.display:
                listed.append({"name": "display", "valueString": concept.display})
            if kind == "ValueSet":
                details = f"Code was validated against in-memory expansion of ValueSet: {url}"
                listed.append({"name": "sourceDetails", "valueString": details})
            return answer(context, listed)
    return answer(context, [{"name": "result", "valueBoolean": False}, {"name": "message", "valueString": message}])


def _of_code_system(code_system: Json, url: str, code: str) -> tuple[Concept | None, str]:
    """The concept of a code in a code system, or the reason why there is none."""
    known = by_grammar(url, code)
    if known is not None:
        problem = f"Error processing unit '{code}': The unit '{code}' is unknown' at position 0 (for '{url}#{code}')"
        return None, "" if known else problem
    if code_system is None:
        return None, f"Terminology service was unable to provide validation for {url}#{code}"
    concept = concepts(code_system).get(code)
    return concept, "" if concept else f"Unknown code '{url}#{code}'"


def _of_value_set(
    context: RequestContext, value_set: Json, url: str, system: str, code: str
) -> tuple[Concept | None, str]:
    """The concept of a code in a value set, or the reason why there is none. HAPI requires the system."""
    if value_set is None:
        unusable = f"Unknown or unusable ValueSet[{url}]"
        return None, f"Validator is unable to provide validation for {code}#{system} - {unusable}"
    library = StoredLibrary(context.server)
    if system and contains(value_set, system, code, library):
        return concepts(library.code_system(system) or {}).get(code), ""
    shown = f"{system}#{code}" if system else code
    return None, f"Unknown code '{shown}' for in-memory expansion of ValueSet '{url}'"


def subsumes(context: RequestContext, kind: str, resource_id: str) -> Response:
    """`$subsumes`: which of two codes of a system subsumes the other."""
    arguments = Arguments(context)
    system, first, second = arguments.text("system"), arguments.text("codeA"), arguments.text("codeB")
    if resource_id:
        code_system = current(context, kind, resource_id).resource
    else:
        code_system = StoredLibrary(context.server).code_system(system)
    known = concepts(code_system) if code_system is not None else {}
    for code in (first, second):
        if code not in known:
            raise FhirError(400, f"Unknown code: [{system}|{code}]")
    if first == second:
        outcome = "equivalent"
    elif first in known[second].above:
        outcome = "subsumes"
    else:
        outcome = "subsumed-by" if second in known[first].above else "not-subsumed"
    return answer(context, [{"name": "outcome", "valueCode": outcome}])


def translate(context: RequestContext, kind: str, resource_id: str) -> Response:
    """`$translate`: the targets of a code in the stored concept maps."""
    arguments = Arguments(context)
    codings = arguments.codings()
    if not codings:
        raise FhirError(400, "HAPI-1154: A code, coding or codeableConcept must be provided")
    if resource_id:
        maps = [current(context, kind, resource_id).resource]
    elif arguments.text("url"):
        concept_map = StoredLibrary(context.server).find("ConceptMap", arguments.text("url"))
        maps = [concept_map] if concept_map else []
    else:
        maps = [decode(text) for text in context.store.texts("ConceptMap")]
    target = arguments.text("targetsystem") or arguments.text("target")
    matches = [
        match
        for concept_map in maps
        for system, code in codings
        for match in _matches(concept_map, system, code, target)
    ]
    result = any(match["part"][0]["valueCode"] not in ("unmatched", "disjoint") for match in matches)
    message = "Matches found" if matches else "No Matches found"
    head = [{"name": "result", "valueBoolean": result}, {"name": "message", "valueString": message}]
    return answer(context, [*head, *matches])


def _matches(concept_map: Json, system: str, code: str, target: str) -> list[Json]:
    matches = []
    for group in concept_map.get("group", ()):
        if system not in ("", group.get("source")) or target not in (
            "",
            group.get("target"),
            concept_map.get("targetUri"),
        ):
            continue
        for element in group.get("element", ()):
            for mapped in element.get("target", ()) if element.get("code") == code else ():
                concept = {"system": group.get("target"), "code": mapped.get("code"), "display": mapped.get("display")}
                coding = {key: value for key, value in concept.items() if value is not None}
                parts = [
                    {"name": "equivalence", "valueCode": mapped.get("equivalence", "equivalent")},
                    {"name": "concept", "valueCoding": coding},
                ]
                if "url" in concept_map:
                    parts.append({"name": "source", "valueUri": concept_map["url"]})
                matches.append({"name": "match", "part": parts})
    return matches
