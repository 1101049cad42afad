"""Requests from independent sources: R4's search parameters with every modifier and prefix, changed versions of HL7's
examples, and a table of features (interactions, formats, kinds of patches and values of each JSON type).

Searches use the values of the examples: dates, codes, words, numbers, references.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fhir_server.definitions import elements, is_primitive
from fhir_server.search.parameters import SearchParameter, parameters
from tools.hapi_diff.client import Case
from tools.hapi_diff.mutations import examples, mutated
from tools.hapi_diff.values import TYPES, Values

EXAMPLES = Path(__file__).resolve().parents[3] / "shared" / "hapi" / "examples.jsonl"
PREFIXES = ("eq", "ne", "gt", "lt", "ge", "le", "sa", "eb", "ap")
MODIFIERS = ("missing", "exact", "contains", "not", "text", "in", "not-in", "above", "below", "of-type", "identifier")
"""All modifiers of R4 (search.html); which of them fit a parameter is for HAPI to say."""
ACCEPTS = (
    *("application/fhir+json", "application/fhir+xml", "application/json", "application/xml", "text/json", "text/xml"),
    *("*/*", "application/fhir+xml;q=1.0, application/fhir+json;q=1.0", "application/xml, application/json", "json"),
    *("application/fhir+xml;q=0.9, application/fhir+json;q=0.8", "text/plain", "application/*", "application/xml+fhir"),
)
FORMATS = ("json", "xml", "application/json", "application/fhir+xml", "application/fhir%2Bjson", "text/xml", "", "foo")
JSON_VALUES: tuple[Any, ...] = ("x", "", " ", 1, -1, 1.5, True, None, {}, [], ["x"], [{}], [None], {"x": 1}, [["x"]])
"""A value of each JSON type, and lists of them."""
PATCH_TYPES = (
    *("application/json-patch+json", "application/fhir+json", "application/json", "application/fhir+xml"),
    "text/plain",
)


@cache
def _examples() -> list[str]:
    if not EXAMPLES.exists():
        raise SystemExit(f"{EXAMPLES} is missing; it needs HL7's examples as HAPI stored them")
    return examples(EXAMPLES)


@cache
def _words() -> dict[str, list[str]]:
    """Values of the examples by what they look like: date, number, reference, code, text."""
    by_type: dict[str, set[str]] = {kind: set() for kind in ("date", "number", "reference", "token", "string", "uri")}

    def walk(value: Any, key: str) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                walk(inner, name)
        elif isinstance(value, list):
            for inner in value:
                walk(inner, key)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            by_type["number"].add(str(value))
        elif isinstance(value, str) and 0 < len(value) < 60:
            if value[:4].isdigit() and value[4:5] in ("", "-"):
                by_type["date"].add(value)
            elif key == "reference":
                by_type["reference"].add(value)
            elif key in ("code", "status", "system", "use", "type"):
                by_type["token"].add(value)
            elif "://" in value or value.startswith("urn:"):
                by_type["uri"].add(value)
            else:
                by_type["string"].add(value.partition(" ")[0])

    for text in _examples():
        walk(json.loads(text), "")
    return {kind: sorted(values) for kind, values in by_type.items()}


def _value(chance: random.Random, parameter: SearchParameter, prefix: str = "") -> str:
    words = _words()
    match parameter.kind:
        case "date":
            return prefix + chance.choice(words["date"])
        case "number" | "quantity":
            unit = (
                chance.choice(("", "", "||mg", "|http://unitsofmeasure.org|mg")) if parameter.kind == "quantity" else ""
            )
            return f"{prefix}{chance.choice(words['number'])}{unit}"
        case "reference":
            return chance.choice(words["reference"])
        case "uri":
            return chance.choice(words["uri"])
        case "composite":
            return "$".join(chance.choice(words["token"]) for _ in parameter.components)
        case "token":
            code = chance.choice(words["token"])
            return chance.choice((code, f"|{code}", f"{chance.choice(words['uri'])}|{code}"))
    return chance.choice(words["string"])


def search(g: Values, *, modified: bool) -> Case:
    """A search by one of R4's parameters; `modified` adds a modifier, or a prefix, or asks for order or more types."""
    kind = g.random.choice(TYPES)
    parameter = g.random.choice(list(parameters(kind).values()))
    name, value = parameter.name, _value(g.random, parameter, g.pick("", *PREFIXES))
    pairs = [(name, value)]
    if modified:
        modifier = g.pick(*MODIFIERS, *parameter.targets[:2])
        value = g.pick("true", "false") if modifier == "missing" else _value(g.random, parameter)
        pairs = g.pick(
            [(f"{name}:{modifier}", value)],
            [(f"{name}:{modifier}", value)],
            [(f"{name}:{modifier}", value)],
            [("_sort", g.pick("", "-") + name)],
            [("_include", f"{kind}:{name}")],
            [("_revinclude", f"{g.pick(*TYPES)}:{name}")],
            [(f"_has:{g.pick(*TYPES)}:subject:{name}", value)],
            [(f"patient.{name}", value)],
            [(name, f"{value},{_value(g.random, parameter)}"), (name, value)],
        )
    pairs.append(("_count", g.pick("2", "5", "50")))
    query = "&".join(f"{key}={quote(argument, safe='/:,')}" for key, argument in pairs)
    return Case("GET", f"{kind}?{query}")


def example(g: Values) -> Case:
    """One of HL7's examples, mostly with a single change, as a create or an update."""
    texts = _examples()
    if g.random.random() < 0.2:
        text = g.random.choice(texts)
    else:
        _, text = next(mutated(texts, 1, g.random.randrange(10**9)))
    resource = json.loads(text)
    resource.pop("meta", None)
    kind = resource["resourceType"]
    if g.random.random() < 0.5:
        resource["id"] = f"ex{g.random.randrange(50)}"
        return Case.with_json("PUT", f"{kind}/{resource['id']}", resource)
    return Case.with_json("POST", kind, resource)


def _formatted(g: Values) -> Case:
    patient = g.patient()
    url = g.pick(
        *(f"Patient/{patient}", "Patient?_count=1", f"Patient/{patient}/_history", f"Patient/{patient}/_history/1"),
        *("_history?_count=1", "Patient/nope", "Foo", "Observation/$lastn?max=1", "$get-resource-counts"),
        *(f"Patient/{patient}/$meta", "Patient?_elements=id&_count=1", "?_getpages=nope"),
    )
    if g.random.random() < 0.5:
        return Case("GET", url, {"Accept": g.pick(*ACCEPTS)})
    return Case("GET", f"{url}{'&' if '?' in url else '?'}_format={g.pick(*FORMATS)}")


def _pointers(kind: str) -> Iterator[str]:
    """JSON Pointers to all elements of a type, and to those one level below."""
    for element in elements(kind):
        for declared in element.types[:2]:
            path = f"/{element.key(declared)}"
            yield path
            yield f"{path}/0" if element.many else path
            if not is_primitive(declared.name) and declared.name not in ("Resource", "Extension"):
                yield from (
                    f"{path}{'/0' if element.many else ''}/{child.name}" for child in elements(declared.name)[2:5]
                )


def _patch(g: Values) -> Case:
    kind = g.pick("Patient", "Observation", "Condition")
    target = f"{kind}/{g.resource_of(kind)['id']}"
    operation = {"op": g.pick("add", "replace", "remove", "test"), "path": g.pick(*_pointers(kind))}
    operation["value"] = g.pick(*JSON_VALUES)
    content = {"Content-Type": g.pick(*["application/json-patch+json"] * 8, *PATCH_TYPES)}
    return Case.with_json("PATCH", target, [operation], headers=content)


def _fhir_patch(g: Values) -> Case:
    patient = g.patient()
    element = g.random.choice(elements("Patient"))
    name = element.name.removesuffix("[x]")
    part = g.pick({"valueString": "x"}, {"valueCode": "male"}, {"valueBoolean": True}, {"valueDate": "2000-01-01"})
    whole = g.pick(
        f"Patient.{name}", f"Patient.{name}", f"Patient.{name}.where(use='official')", f"Patient.{name}[0].id"
    )
    parts: list[dict[str, Any]] = [{"name": "type", "valueCode": g.pick("add", "replace", "delete", "insert", "move")}]
    parts.append({"name": "path", "valueString": "Patient" if parts[0]["valueCode"] == "add" else whole})
    parts += [{"name": "name", "valueString": name}, {"name": "value", **part}]
    parts += [{"name": key, "valueInteger": g.pick(0, 1)} for key in ("index", "source", "destination")]
    body = {"resourceType": "Parameters", "parameter": [{"name": "operation", "part": parts}]}
    return Case.with_json("PATCH", f"Patient/{patient}", body)


def _entry(g: Values) -> Case:
    person = {"resourceType": "Patient", "active": True}
    entry: dict[str, Any] = {"request": {"method": g.pick("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD")}}
    if g.random.random() < 0.9:
        entry["request"]["url"] = g.pick(
            *(
                "Patient",
                "Patient/diff2",
                f"Patient/{g.patient()}",
                "Foo",
                "Foo/1",
                "Patient?identifier=zz",
                "/Patient",
            ),
            *("Patient/diff2/_history/1", "patient/diff2", "Observation/diff2"),
        )
    if g.random.random() < 0.6:
        entry["resource"] = g.pick(person, {**person, "id": "diff2"}, {**person, "id": "other"})
    extra = g.pick({}, {}, {"ifNoneMatch": 'W/"1"'}, {"ifMatch": 'W/"9"'}, {"ifNoneExist": "identifier=zz"})
    entry["request"] |= extra
    return Case.with_json("POST", "", {"resourceType": "Bundle", "type": "transaction", "entry": [entry]})


def feature(g: Values) -> Case:
    """A row of the table of features."""
    return g.random.choices((_formatted, _patch, _fhir_patch, _entry), (3, 5, 1, 2))[0](g)
