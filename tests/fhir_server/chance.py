"""Requests by chance over all of R4: resources made from the definitions, damaged at will, and searches of any kind.

One seed gives one run of requests, so a failure is repeated by its seed.
"""

from __future__ import annotations

import json
import random
from typing import Any
from urllib.parse import quote

from fhir_server import Request
from fhir_server.definitions import Element, codes, elements, is_primitive, resource_types
from fhir_server.search.parameters import parameters

JSON_TYPE = ("Content-Type", "application/fhir+json")
PATCH_TYPE = ("Content-Type", "application/json-patch+json")
FORM_TYPE = ("Content-Type", "application/x-www-form-urlencoded")
DEPTH = 4

GOOD = {
    "boolean": (True, False),
    "integer": (0, -1, 2147483647),
    "positiveInt": (1, 70000),
    "unsignedInt": (0, 5),
    "decimal": (0, 4.10, -1e-7, 1e20),
    "date": ("2020", "2020-02", "2020-02-29", "0001-01-01", "9999-12-31"),
    "dateTime": ("2020", "2020-02-29T23:59:60Z", "2020-02-29T00:00:00.123456789+14:00", "9999-12-31T23:59:59-12:00"),
    "instant": ("2020-02-29T00:00:00Z", "0001-01-01T00:00:00+14:00"),
    "time": ("00:00:00", "23:59:59.999"),
    "base64Binary": ("", "AAAA"),
    "id": ("a", "1", "x" * 64),
    "uri": ("http://example.org/a|1", "urn:oid:1.2.3", "%", "é"),
    "xhtml": ('<div xmlns="http://www.w3.org/1999/xhtml">a &amp; b</div>', "<div>", "<p>"),
}
HOSTILE = (
    *("", "%", "_", "\\", "a\\", "'", '"', "';DROP TABLE resources--", "%_%", "\x00", "\u2028", "\u202e", "İß\ufb03"),
    *(
        "..",
        "../..",
        "#",
        "/",
        "//",
        "Patient/",
        "urn:uuid:x",
        "http://[",
        "a" * 3000,
        "NaN",
        "inf",
        "1e400",
        "9" * 400,
    ),
    *("0000", "9999-99-99", "2020-02-30", "ap2020", "gt", "|", "a|b|c", "$", ",", ",,", "(((", "*", "*:*", "-1", "+5"),
    *("2147483648", "99999999999", "true", "a", "a,b", "http://a|b", "ge2020-01-01T00:00:00", "lt5.4||mg", "1|2|3|km"),
    *("name eq x and (_id ne a or not (_lastUpdated gt 2020))", "_id,-_lastUpdated", "Observation:subject:Patient"),
)
MODIFIERS = (
    "missing",
    "exact",
    "contains",
    "not",
    "text",
    "in",
    "above",
    "of-type",
    "identifier",
    "Patient",
    "nope",
    "",
)
COMMON = (
    *("_id", "_lastUpdated", "_tag", "_profile", "_source", "_list", "_filter", "_sort", "_count", "_offset", "_total"),
    *("_summary", "_elements", "_include", "_include:iterate", "_revinclude", "_text", "_contained", "_getpages"),
    *("_format", "_pretty", "_has:Observation:patient:code", "_has:A:b", "_has", "_since", "start", "nope", ":", "."),
)
HEADERS = (
    *(("If-Match", 'W/"1"'), ("If-Match", '"'), ("If-None-Match", "*"), ("If-None-Exist", "_id=a"), ("Host", "a b")),
    *(("If-None-Exist", "?"), ("If-Modified-Since", "Mon, 01 Jan 0001 00:00:00 +2300"), ("Prefer", "return=minimal")),
    *(("Prefer", "return=OperationOutcome"), ("Accept", "application/fhir+xml"), ("X-Request-ID", "a\nb")),
)


class Chance:
    """A source of requests; `damage` is how likely each value is spoiled, by chance where it is None."""

    def __init__(self, seed: int, damage: float | None = None) -> None:
        self._random = random.Random(seed)
        self._damage = self._random.choice((0, 0.01, 0.1)) if damage is None else damage

    def _often(self, likelihood: float) -> bool:
        return self._random.random() < likelihood

    def _one(self, items: Any) -> Any:
        return self._random.choice(items)

    def request(self) -> Request:
        """Any request that a client may think of."""
        kind = self._one(resource_types())
        place = f"/fhir/{kind}/{quote(self.name())}"
        choice = self._random.random()
        if choice < 0.5:
            return self._search(kind)
        if choice < 0.6:
            ends = (
                "",
                "/_history",
                "/_history/1",
                f"/_history/{self._escaped()}",
                "/$everything",
                f"/{self._escaped()}",
            )
            return self._sent(self._one(("GET", "HEAD", "OPTIONS", "DELETE")), f"{place}{self._one(ends)}")
        if choice < 0.8:
            resource = self.resource(kind)
            if self._often(0.7):
                return self._sent("PUT", place, {**resource, "id": place.rpartition("/")[2]})
            return self._sent(self._one(("POST", "PUT")), f"/fhir/{kind}?{self.query(kind)}", resource)
        if choice < 0.9:
            body, content = self._one(((self._json_patch, PATCH_TYPE), (self._fhir_patch, JSON_TYPE)))
            return self._sent("PATCH", place, body(kind), content)
        return self._sent("POST", "/fhir", self._bundle())

    def name(self) -> str:
        """The id of a resource that is often there."""
        return str(self._one(("a", "b", "c", "1", self._one(HOSTILE)[:80])))

    def _escaped(self) -> str:
        text: str = self._one(HOSTILE)
        return quote(text, safe=self._one(("", "|,:$/*%")))

    def query(self, kind: str) -> str:
        """A query string over the search parameters of a type."""
        return "&".join(f"{self._parameter(kind)}={self._value()}" for _ in range(self._one((0, 1, 1, 2, 5))))

    def _parameter(self, kind: str) -> str:
        if self._often(0.2):
            return str(self._one(COMMON))
        name = self._one(list(parameters(kind)))
        found = parameters(kind)[name]
        if self._often(0.4):
            name += f":{self._one(MODIFIERS)}"
        if found.kind == "reference" and self._often(0.5):
            name += f".{self._parameter(self._one(found.targets or resource_types()))}"
        return str(name)

    def _value(self) -> str:
        parts = [self._escaped() for _ in range(self._one((1, 1, 1, 2)))]
        prefix = self._one(("", "", "eq", "ne", "ge", "lt", "sa", "ap"))
        return f"{prefix}{self._one((',', '$', '|')).join(parts)}"

    def _search(self, kind: str) -> Request:
        query = self.query(kind)
        if self._often(0.1):
            return Request("POST", f"/fhir/{kind}/_search", [FORM_TYPE], query.encode())
        return self._sent("GET", f"/fhir/{self._one((*[kind] * 8, f'{kind}/_history', ''))}?{query}")

    def _sent(self, method: str, target: str, body: Any = None, content: tuple[str, str] = JSON_TYPE) -> Request:
        headers = [content] if body is not None and not self._often(0.02) else []
        if self._often(0.1):
            headers.append(self._one(HEADERS))
        return Request(method, target, headers, b"" if body is None else self._text(body))

    def _text(self, body: Any) -> bytes:
        text = json.dumps(body, ensure_ascii=self._often(0.5)).encode("utf-8", "surrogatepass")
        if not self._often(self._damage):
            return text
        at = self._random.randrange(len(text))
        return text[:at] + bytes(self._random.randbytes(self._one((0, 1, 2)))) + text[at + 1 :]

    def resource(self, kind: str) -> dict[str, Any]:
        """A resource of a type, with about every third element that R4 gives it."""
        return {"resourceType": kind, **self._object(kind, 0)}

    def _object(self, type_name: str, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for element in elements(type_name):
            declared = self._one(element.types)
            if self._often(0.35 / (depth + 1)) and (depth < DEPTH or is_primitive(declared.name)):
                value = self._filled(element, declared.name, depth)
                found[element.key(declared)] = [value] * self._one((1, 2)) if element.many else value
        if "reference" in found:
            found["reference"] = self._one(("Patient/a", "Patient/b", "#x", "http://example.org/fhir/Patient/a"))
        return found

    def _filled(self, element: Element, type_name: str, depth: int) -> Any:
        if self._often(self._damage):
            return self._one((None, [], {}, [[]], 10**400, float("nan"), "\ud800", True, *HOSTILE))
        if element.codes:
            return self._one(list(codes(element.codes)))
        if type_name in GOOD:
            return self._one(GOOD[type_name])
        if is_primitive(type_name):
            return self._one(HOSTILE)
        if type_name == "Resource":
            return self.resource(self._one(resource_types())) if depth < DEPTH else {"resourceType": "Basic"}
        return self._object(type_name, depth + 1)

    def _json_patch(self, kind: str) -> Any:
        def pointer() -> str:
            key = self._one(elements(kind)).name
            return str(self._one(("", f"/{key}", f"/{key}/0", f"/{key}/-", "/id", "/x/~2", "x", f"/{'9' * 30}")))

        operations = ("add", "remove", "replace", "move", "copy", "test", "nope", None)
        return [
            {"op": self._one(operations), "path": pointer(), "from": pointer(), "value": self.resource(kind)}
            for _ in range(self._one((0, 1, 1, 3)))
        ]

    def _fhir_patch(self, kind: str) -> Any:
        path = f"{kind}.{self._one(elements(kind)).name}{self._one(('', '[0]', '[99999999999]', '.x'))}"
        parts = [
            {"name": "type", "valueCode": self._one(("add", "insert", "delete", "replace", "move", "nope"))},
            {"name": "path", "valueString": self._one((path, kind, "", "Patient..", self._one(HOSTILE)))},
            {"name": "name", "valueString": self._one(elements(kind)).name},
            {"name": "value", "valueString": self._one(HOSTILE)},
            {"name": "index", "valueInteger": self._one((0, -1, 10**12))},
        ]
        kept = [part for part in parts if not self._often(0.2)]
        return {"resourceType": "Parameters", "parameter": [{"name": "operation", "part": kept}]}

    def _bundle(self) -> Any:
        entries = []
        for number in range(self._one((0, 1, 3))):
            kind, name = self._one(resource_types()), self.name()
            method = self._one(("POST", "PUT", "PUT", "GET", "DELETE", "PATCH", "nope"))
            url = self._one((kind, f"{kind}/{name}", f"{kind}/{name}", f"{kind}?{self.query(kind)}", "", "_history"))
            request = {"method": method, "url": url, "ifNoneExist": "_id=a" if self._often(0.1) else None}
            resource = {**self.resource(kind), "id": name}
            entries.append({"fullUrl": f"urn:uuid:{number}", "resource": resource, "request": request})
        return {"resourceType": "Bundle", "type": self._one(("transaction", "batch", "nope")), "entry": entries}
