"""What a value gives in the index, by the kind of the search parameter and the type of the value.

Which parts of a type are indexed is observed behaviour of HAPI FHIR 7.6.0: the display of a coding is a string row of
the same parameter (for `:text`), a range gives its ends, money the currency as its unit.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

from fhir_server import definitions
from fhir_server.resources.references import target
from fhir_server.search.dates import Span, period_span, span, timing_span
from fhir_server.search.element_paths import Chain
from fhir_server.search.index_rows import IndexRows, ReferenceRow, fold
from fhir_server.search.parameters import SearchParameter
from fhir_server.wire.jsontext import Json

Emit = Callable[[IndexRows, list[Json]], None]
One = Callable[[IndexRows, str, Json], None]

TEXT_LIMIT: Final = 768
"""Longer texts are cut before they are indexed, as in HAPI's columns."""
CURRENCIES: Final = "urn:iso:std:iso:4217"
_CENT: Final = Decimal("0.01")
_LARGE: Final = Decimal(10) ** 17  # HAPI's column has 17 digits before the point
_TEXTS: Final = frozenset(("string", "markdown", "code", "id", "uri", "url", "canonical", "oid", "uuid"))
_HUMAN_NAME: Final = ("family", "given", "text", "prefix", "suffix")
_ADDRESS: Final = ("line", "city", "district", "state", "country", "postalCode", "text")


def emitter(parameter: SearchParameter, chain: Chain) -> Emit | None:
    """What turns the values at the end of a chain into rows; None where such values are not indexed."""
    if parameter.kind == "reference":
        return _reference_emitter(parameter.name, chain)
    one = _one(parameter.kind, chain)
    if one is None:
        return None
    name = parameter.name

    def emit(rows: IndexRows, values: list[Json]) -> None:
        for value in values:
            one(rows, name, value)

    return emit


def _one(kind: str, chain: Chain) -> One | None:
    type_name = chain.type_name
    if kind == "token":
        return _enumerated(chain.codes) if chain.codes else _TOKENS.get(type_name)
    if kind == "string":
        return _string if type_name in _TEXTS else _STRINGS.get(type_name)
    if kind == "uri":
        return _uri if type_name in _TEXTS else None
    if kind == "special":
        return _coords if chain.keys[-1] == "position" else None
    return _AMOUNTS.get((kind, type_name))


def _string(rows: IndexRows, name: str, value: Json) -> None:
    if value is not None:
        cut = value[:TEXT_LIMIT]
        rows.strings.append((name, fold(cut)[:TEXT_LIMIT], cut))


def _parts(keys: tuple[str, ...]) -> One:
    """Each of the named members, texts or lists of texts, as a string row."""

    def emit(rows: IndexRows, name: str, value: Json) -> None:
        for key in keys:
            part = value.get(key)
            for text in part if type(part) is list else (part,):
                _string(rows, name, text)

    return emit


def _add_token(rows: IndexRows, name: str, system: str | None, value: str | None) -> None:
    if system or value:
        rows.tokens.append((name, system or "", value or ""))


def _plain_token(rows: IndexRows, name: str, value: Json) -> None:
    _add_token(rows, name, None, value)


def _boolean_token(rows: IndexRows, name: str, value: Json) -> None:
    _add_token(rows, name, None, "true" if value else "false")


def _enumerated(codes: str) -> One:
    systems = definitions.codes(codes)

    def emit(rows: IndexRows, name: str, value: Json) -> None:
        if value is not None:
            _add_token(rows, name, systems[value], value)

    return emit


def _coding(rows: IndexRows, name: str, value: Json) -> None:
    _add_token(rows, name, value.get("system"), value.get("code"))
    _string(rows, name, value.get("display"))


def _concept(rows: IndexRows, name: str, value: Json) -> None:
    _string(rows, name, value.get("text"))
    for coding in value.get("coding", ()):
        _coding(rows, name, coding)


def _identifier(rows: IndexRows, name: str, value: Json) -> None:
    """An identifier or a contact point; one without a value is not indexed."""
    if "value" in value:
        _add_token(rows, name, value.get("system"), value["value"])


def _add_span(rows: IndexRows, name: str, stretch: Span | None) -> None:
    if stretch is not None:
        rows.dates.append((name, *stretch))


def _date(rows: IndexRows, name: str, value: Json) -> None:
    if value is not None:
        _add_span(rows, name, span(value))


def _period(rows: IndexRows, name: str, value: Json) -> None:
    _add_span(rows, name, period_span(value))


def _timing(rows: IndexRows, name: str, value: Json) -> None:
    _add_span(rows, name, timing_span(value))


def _float(amount: Json) -> float:
    # By way of the text: an integer too large for a float would be an error, its digits are just infinite.
    return float(str(amount))


def _quantity(rows: IndexRows, name: str, value: Json) -> None:
    amount = value.get("value")
    if amount is not None:
        rows.quantities.append((name, _float(amount), value.get("system", ""), value.get("code", "")))


def _money(rows: IndexRows, name: str, value: Json) -> None:
    amount = value.get("value")
    if amount is not None:
        rows.quantities.append((name, _float(amount), CURRENCIES, value.get("currency", "")))


def _range(rows: IndexRows, name: str, value: Json) -> None:
    for end in ("low", "high"):
        _quantity(rows, name, value.get(end, _NOTHING))


def _number(rows: IndexRows, name: str, value: Json) -> None:
    if value is not None:
        exact = Decimal(value)
        rows.numbers.append((name, float(exact.quantize(_CENT, ROUND_HALF_UP) if abs(exact) < _LARGE else exact)))


def _number_of_quantity(rows: IndexRows, name: str, value: Json) -> None:
    _number(rows, name, value.get("value"))


def _number_of_range(rows: IndexRows, name: str, value: Json) -> None:
    for end in ("low", "high"):
        _number(rows, name, value.get(end, _NOTHING).get("value"))


def _uri(rows: IndexRows, name: str, value: Json) -> None:
    if value is not None:
        rows.uris.append((name, value))


def _coords(rows: IndexRows, name: str, value: Json) -> None:
    latitude, longitude = value.get("latitude"), value.get("longitude")
    if latitude is not None and longitude is not None:
        rows.coords.append((name, _float(latitude), _float(longitude)))


def _reference_emitter(name: str, chain: Chain) -> Emit | None:
    if chain.type_name not in ("Reference", "canonical", "uri"):
        return None
    wanted, path, is_object = chain.target, chain.path, chain.type_name == "Reference"

    def emit(rows: IndexRows, values: list[Json]) -> None:
        for value in values:
            reference = value.get("reference") if is_object else value
            if reference is None or reference[0] == "#" or (wanted and target(reference).type != wanted):
                continue
            rows.references.append(ReferenceRow(name, path, reference))

    return emit


_NOTHING: Final[dict[str, Json]] = {}
_TOKENS: Final[dict[str, One]] = {
    "CodeableConcept": _concept,
    "Coding": _coding,
    "Identifier": _identifier,
    "ContactPoint": _identifier,
    "boolean": _boolean_token,
    **dict.fromkeys(_TEXTS, _plain_token),
}
_STRINGS: Final[dict[str, One]] = {
    "HumanName": _parts(_HUMAN_NAME),
    "Address": _parts(_ADDRESS),
    "ContactPoint": _parts(("value",)),
}
_AMOUNTS: Final[dict[tuple[str, str], One]] = {
    **{("date", type_name): _date for type_name in ("date", "dateTime", "instant")},
    ("date", "Period"): _period,
    ("date", "Timing"): _timing,
    **{("quantity", type_name): _quantity for type_name in ("Quantity", "Age", "Duration", "Distance", "Count")},
    ("quantity", "Money"): _money,
    ("quantity", "Range"): _range,
    **{("number", type_name): _number for type_name in ("integer", "positiveInt", "unsignedInt", "decimal")},
    **{("number", type_name): _number_of_quantity for type_name in ("Quantity", "Age", "Duration")},
    ("number", "Range"): _number_of_range,
}
