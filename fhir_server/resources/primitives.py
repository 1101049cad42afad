"""The primitive types of R4 as HAPI's parser checks them: each reader accepts the text of a scalar or raises an error.

The messages are observed behaviour of HAPI FHIR 7.6.0.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Final, NoReturn

from fhir_server import definitions
from fhir_server.wire.json_values import JsonTextError, number

Scalar = str | int | bool
Reader = Callable[[str], Scalar]

_ZONE = r"(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
_DATE_TIME = re.compile(
    r"(\d{4})(?:-(0[1-9]|1[0-2])(?:-(0[1-9]|[12]\d|3[01])"
    rf"(?:T(?:[01]\d|2[0-3]):[0-5]\d(?:{_ZONE}|:(?:[0-5]\d|60)(?:\.\d+)?(?:{_ZONE})?))?)?)?",
    re.ASCII,
)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_DIGITS = re.compile(r"\d+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
VALID_ID = re.compile(r"[A-Za-z0-9\-.]{1,64}")
"""The format of a resource's id."""
_NOT_IN_DECIMAL = re.compile(r"[^0-9.eE+-]|(?<=[^eE])[+-]")
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_SPACE = re.compile(r"\s+")
_LAST_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class PrimitiveError(ValueError):
    """A text that is not a value of its type; the message is HAPI's."""


class WrongCharacterError(PrimitiveError):
    """A date with another character at a place where its form prescribes one."""


def reader(type_name: str, codes: str | None) -> Reader | None:
    """The function that reads the text of a primitive; None if any text is valid."""
    if codes is not None:
        return _enumeration(codes)
    return _READERS.get(type_name)


def _enumeration(name: str) -> Reader:
    known = definitions.codes(name)

    def read(text: str) -> Scalar:
        if text not in known:
            raise PrimitiveError(f"Unknown {name} code '{text}'")
        return text

    return read


def _boolean(text: str) -> Scalar:
    trimmed = text.strip()
    if trimmed not in ("true", "false"):
        raise PrimitiveError(f"Invalid boolean string: '{text}'")
    return trimmed == "true"


def _integer(text: str) -> Scalar:
    if not _INTEGER.fullmatch(text) or not -(2**31) <= int(text[:20]) < 2**31:
        raise PrimitiveError(f'java.lang.NumberFormatException: For input string: "{text}"')
    return int(text)


def _decimal(text: str) -> Scalar:
    if not _DECIMAL.fullmatch(text):
        odd = _NOT_IN_DECIMAL.search(text)
        raise PrimitiveError(
            f'Character {odd[0]} is neither a decimal digit number, decimal point, nor "e" notation exponential mark.'
            if odd
            else "Character array is missing \"exponent\" mark 'e' or 'E'."
        )
    try:
        # A text may contain what a JSON number must not: a plus, leading zeros, a point at either end.
        return number(text.lstrip("+") if "e" in text.lower() else format(Decimal(text), "f"))
    except JsonTextError as error:
        raise PrimitiveError(error.message) from error


def _base64(text: str) -> Scalar:
    packed = _SPACE.sub("", text)
    if not _BASE64.fullmatch(packed) or len(packed) % 4:
        raise PrimitiveError("")
    return packed


def _date(text: str) -> Scalar:
    """A date of any precision: HAPI keeps precisions that the element's type does not allow."""
    match = _DATE_TIME.fullmatch(text)
    if not match or (match[3] and match[3] > "28" and not _has_day(match)):
        check_date(text.strip(" "))
    return text


def _has_day(match: re.Match[str]) -> bool:
    return int(match[3]) <= _last_day(int(match[1]), int(match[2]))


def _last_day(year: int, month: int) -> int:
    if month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0):
        return 29
    return _LAST_DAYS[month - 1]


def date_precision(text: str) -> str:
    """The precision of a valid date by its length: YEAR, MONTH, DAY, MINUTE, SECOND or MILLI."""
    length = len(text)
    if length == 4:
        return "YEAR"
    if length <= 10:
        return "MONTH" if length == 7 else "DAY"
    if length == 16 or text[16] != ":":
        return "MINUTE"
    return "MILLI" if text[19:20] == "." else "SECOND"


def _bad_date(text: str, why: str = "") -> NoReturn:
    raise PrimitiveError(f'Invalid date/time format: "{text}"{": " if why else ""}{why}')


def _expect(text: str, index: int, character: str) -> None:
    if text[index] != character:
        why = f"Expected character '{character}' at index {index} but found {text[index]}"
        raise WrongCharacterError(f'Invalid date/time format: "{text}": {why}')


def _number_in(text: str, start: int, end: int, low: int, high: int) -> int:
    part = text[start:end]
    if not _DIGITS.fullmatch(part) or not low <= int(part) <= high:
        _bad_date(text)
    return int(part)


def check_date(text: str) -> None:
    """The checks of HAPI's date parser, in its order, so that the first error is the one that HAPI reports."""
    length = len(text)
    if length < 4:
        _bad_date(text)
    year = _number_in(text, 0, 4, 0, 9999)
    if length == 4:
        return
    _expect(text, 4, "-")
    if length < 7:
        _bad_date(text)
    month = _number_in(text, 5, 7, 1, 12)
    if length == 7:
        return
    _expect(text, 7, "-")
    if length < 10:
        _bad_date(text)
    _number_in(text, 8, 10, 1, _last_day(year, month))
    if length > 10:
        _check_time(text)


def _check_time(text: str) -> None:
    if len(text) < 17:
        _bad_date(text)
    _expect(text, 10, "T")
    zone = _zone_index(text)
    time = text[11:zone] if zone != -1 else text[11:]
    if zone != -1:
        _check_zone(text, text[zone:])
    _expect(text, 13, ":")
    _number_in(text, 11, 13, 0, 23)
    _number_in(text, 14, 16, 0, 59)
    if len(time) > 5:
        if len(text) < 19:
            _bad_date(text)
        _expect(text, 16, ":")
        _number_in(text, 17, 19, 0, 60)
        if len(time) > 8:
            _expect(text, 19, ".")
            end = zone if zone != -1 else len(text)
            if not _DIGITS.fullmatch(text[20:end]):
                _bad_date(text)


def _zone_index(text: str) -> int:
    positions = [text.find(mark, 16) for mark in "+-Z"]
    if max(positions) != -1 and max(positions) - 2 != sum(positions):
        _bad_date(text)
    return max(positions)


def _check_zone(text: str, zone: str) -> None:
    if zone[0] == "Z":
        return
    if len(zone) != 6 or zone[3] != ":":
        _bad_date(text, 'Timezone offset must be in the form "Z", "-HH:mm", or "+HH:mm"')
    _number_in(text, len(text) - 5, len(text) - 3, 0, 23)
    _number_in(text, len(text) - 2, len(text), 0, 59)


_READERS: Final[dict[str, Reader]] = {
    "boolean": _boolean,
    "integer": _integer,
    "positiveInt": _integer,
    "unsignedInt": _integer,
    "decimal": _decimal,
    "base64Binary": _base64,
    "date": _date,
    "dateTime": _date,
    "instant": _date,
}
