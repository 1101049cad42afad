"""Conditions on one search parameter as SQL over its index table, a function for each kind.

A condition can lead a query (its table is walked in index order) or filter one (`EXISTS` on the same resource). The
column in `order` is the order HAPI answers in when the condition leads; empty for insertion order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation

from fhir_server.errors import FhirError
from fhir_server.search.hashing import index_hash
from fhir_server.search.indexer import fold
from fhir_server.search.query import split, unescape

PREFIX = re.compile(r"[^-%0-9]*")
COMPARATORS = ("eq", "ne", "gt", "ge", "lt", "le", "sa", "eb", "ap")
TARGET = (
    "(SELECT aim.pid FROM resources AS aim WHERE aim.type = substr(target, 1, instr(target, '/') - 1)"
    " AND aim.id = substr(target, instr(target, '/') + 1))"
)
"""The number of what a row of `links` leads to."""
AFTER_ALL = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class Condition:
    """`where` is over the columns of `table`, `@pid` in it the number of its row's resource; `weight` estimates how
    many rows it leaves (small: few).

    `lead` replaces the plain walk over the table where the order comes from elsewhere; it selects `pid` and `k`.
    """

    table: str
    where: str
    args: tuple[object, ...]
    order: str = ""
    weight: int = 2
    negated: bool = False
    order_args: tuple[object, ...] = ()
    lead: tuple[str, tuple[object, ...]] | None = None

    def filter(self, pid: str) -> str:
        """The condition as a test of the resource whose number is the SQL expression `pid`."""
        negation = "NOT " if self.negated else ""
        where = self.where.replace("@pid", "one.pid")
        return f"{negation}EXISTS (SELECT 1 FROM {self.table} AS one WHERE {where} AND one.pid = {pid})"

    def pids(self) -> str:
        """The numbers of the resources that meet it (not for a negated one); takes `args`."""
        where = self.where.replace("@pid", "each.pid")
        return f"SELECT pid FROM {self.table} AS each WHERE {where}"

    def walk(self) -> tuple[str, tuple[object, ...]]:
        """The numbers with a key `k` to order them by, and the arguments."""
        if self.lead:
            return self.lead
        where = self.where.replace("@pid", "walked.pid")
        sql = f"SELECT pid, {self.order or '0'} AS k FROM {self.table} AS walked WHERE {where}"
        return sql, self.order_args + self.args

    def positive(self, resource_type: str) -> Condition:
        """Itself, or for a negated one the same as a condition that can lead."""
        if not self.negated:
            return self
        where = f"type = ? AND text IS NOT NULL AND {self.filter('@pid')}"
        return Condition("resources", where, (resource_type, *self.args), weight=8)


def tokens(param: int, values: Sequence[str], modifier: str, name: tuple[str, str] = ("", "")) -> Condition:
    """`code`, `system|code`, `|code`, `system|`; `:not` for none of them, `:text` by the display text."""
    if modifier == "text":
        return strings(param, values, "")
    parts = [_token(value) for value in values]
    args = (param, *(arg for _, part_args, _ in parts for arg in part_args))
    found = Condition("tokens", f"param = ? AND {either([sql for sql, _, _ in parts])}", args, weight=2)
    if modifier in ("not", "not-in"):
        return replace(found, negated=True)
    # Only alternatives of one form are looked up in one index of hashes, and so come in its order.
    return _by_hash(found, name, parts) if len(parts) > 1 and len({sql for sql, _, _ in parts}) == 1 else found


_Token = tuple[str, tuple[str, ...], tuple[str, ...]]


def _token(value: str) -> _Token:
    """The condition on a token's row, its arguments, and what HAPI hashes of it."""
    system, bar, code = _bar(value)
    if not bar:
        return "value = ?", (code,), (code,)
    if not code:
        return "system = ?", (system,), (system,)
    return "value = ? AND system = ?", (code, system), (system, code)


def _by_hash(condition: Condition, name: tuple[str, str], parts: Sequence[_Token]) -> Condition:
    """Alternatives in the order of their hashes."""
    ordered = sorted(parts, key=lambda part: index_hash(*name, *part[2]))
    cases = " ".join(f"WHEN {sql} THEN {rank}" for rank, (sql, _, _) in enumerate(ordered))
    args = tuple(arg for _, part_args, _ in ordered for arg in part_args)
    return replace(condition, order=f"CASE {cases} END", order_args=args)


def _bar(value: str) -> tuple[str, str, str]:
    parts = split(value, "|")
    if len(parts) == 1:
        return "", "", unescape(value)
    return unescape(parts[0]), "|", unescape("|".join(parts[1:]))


def strings(param: int, values: Sequence[str], modifier: str) -> Condition:
    """Starts with, by the normalised text; `:exact`, `:contains`. An underscore matches any letter, as HAPI's LIKE."""
    parts: list[str] = []
    args: list[object] = [param]
    for value in map(unescape, values):
        folded = fold(value)
        if modifier == "exact":
            parts.append("norm = ? AND exact = ?")
            args += (folded, value)
        elif modifier == "contains":
            parts.append("norm LIKE ? ESCAPE '\\'")
            args.append(f"%{_like(folded)}%")
        else:
            head = folded.partition("_")[0]
            parts.append("norm >= ? AND norm < ?" + (" AND norm LIKE ? ESCAPE '\\'" if head != folded else ""))
            args += (head, head + AFTER_ALL, *((f"{_like(folded)}%",) if head != folded else ()))
    return Condition("strings", f"param = ? AND {either(parts)}", tuple(args), "norm", 3)


def _like(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%")


def uris(param: int, values: Sequence[str], modifier: str) -> Condition:
    """Equal; `:below` for what begins with it, `:above` for what it begins with."""
    parts: list[str] = []
    args: list[object] = [param]
    for value in map(unescape, values):
        if modifier == "below":
            parts.append("value >= ? AND value < ?")
            args += (value, value + AFTER_ALL)
        elif modifier == "above":
            above = _prefixes(value)
            parts.append(f"value IN ({', '.join('?' * len(above))})")
            args += above
        else:
            parts.append("value = ?")
            args.append(value)
    return Condition("uris", f"param = ? AND {either(parts)}", tuple(args), "", 2)


def sources(param: int, values: Sequence[str]) -> Condition:
    """`uri`, `#request` or `uri#request` of `meta.source`."""
    parts: list[str] = []
    args: list[object] = [param]
    for value in map(unescape, values):
        uri, _, request = value.partition("#")
        if request:
            parts.append("value = ?" if uri else "substr(value, instr(value, '#')) = ?")
            args.append(value)
        else:
            parts.append("value = ? OR (value >= ? AND value < ?)")
            args += (uri, f"{uri}#", f"{uri}$")
    return Condition("uris", f"param = ? AND {either([f'({part})' for part in parts])}", tuple(args), "", 2)


def _prefixes(url: str) -> list[str]:
    """The URLs above a URL, itself among them: cut at each slash of its path."""
    start = url.find("//")
    cuts = [i for i, letter in enumerate(url) if letter == "/" and i > (start + 1 if start >= 0 else 0)]
    found = [url, *(url[:i] for i in reversed(cuts)), *(url[: i + 1] for i in reversed(cuts))]
    return list(dict.fromkeys(found))[:200]


def numbers(param: int, values: Sequence[str], _modifier: str) -> Condition:
    """A number with a prefix; a bare one stands for itself alone, whatever its digits."""
    parts: list[str] = []
    args: list[object] = [param]
    for value in values:
        sql, bounds = compare(*prefixed(unescape(value)))
        parts.append(sql)
        args += bounds
    return Condition("numbers", f"param = ? AND {either(parts)}", tuple(args), "value", 4)


def quantities(param: int, values: Sequence[str], _modifier: str) -> Condition:
    """`[prefix]number`, `number|system|code` or `number||code`; a unit given so matches code or unit."""
    parts: list[str] = []
    args: list[object] = [param]
    for value in values:
        number, *unit = split(value, "|")
        sql, bounds = compare(*prefixed(unescape(number)))
        args += bounds
        system, code = (unescape(unit[0]) if unit else ""), (unescape(unit[1]) if len(unit) > 1 else "")
        if system:
            sql += " AND system = ?"
            args.append(system)
        if code:
            sql += " AND units = ?"
            args.append(code)
        parts.append(sql)
    return Condition("quantities", f"param = ? AND {either(parts)}", tuple(args), "value", 4)


def prefixed(text: str) -> tuple[str, str]:
    """The comparator of a value (`eq` when there is none) and the rest; HAPI's errors for what is neither."""
    found = PREFIX.match(text)
    prefix = found.group() if found else ""
    if not prefix.strip():
        return "eq", text
    if prefix == text:
        raise FhirError(400, f'HAPI-1940: Invalid date/time/quantity format: "{text}"')
    if prefix not in COMPARATORS:
        raise FhirError(400, f'HAPI-1941: Invalid prefix: "{prefix}"')
    return prefix, text[len(prefix) :]


def compare(prefix: str, text: str) -> tuple[str, tuple[float, ...]]:
    """A comparison of the column `value` with a decimal."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise FhirError(400, f'HAPI-1940: Invalid date/time/quantity format: "{text}"') from None
    if not number.is_finite():
        raise FhirError(400, f'HAPI-1940: Invalid date/time/quantity format: "{text}"')
    exact = float(number)
    if math.isinf(exact):
        exact = math.copysign(1.7976931348623157e308, exact)
    match prefix:
        case "gt" | "sa":
            return "value > ?", (exact,)
        case "ge":
            return "value >= ?", (exact,)
        case "lt" | "eb":
            return "value < ?", (exact,)
        case "le":
            return "value <= ?", (exact,)
        case "ne":
            return "value <> ?", (exact,)
        case "ap":
            return "value >= ? AND value <= ?", (exact - abs(exact) / 10, exact + abs(exact) / 10)
    return "value = ?", (exact,)


def coords(param: int, values: Sequence[str], _modifier: str) -> Condition:
    """`latitude|longitude|distance|unit`: inside the box around the circle, as HAPI."""
    parts: list[str] = []
    args: list[object] = [param]
    for value in values:
        try:
            latitude, longitude, *rest = split(value, "|")
            north, east = float(latitude), float(longitude)
            distance = float(rest[0]) if rest and rest[0] else 1.0
        except ValueError:
            raise FhirError(
                400, f"HAPI-2229: Invalid position format '{value}'. Required format is 'latitude:longitude'"
            ) from None
        kilometres = distance * _UNITS.get(rest[1] if len(rest) > 1 else "km", 1.0)
        height = math.degrees(kilometres / 6371.0)
        width = height / max(math.cos(math.radians(north)), 1e-6)
        parts.append("latitude BETWEEN ? AND ? AND longitude BETWEEN ? AND ?")
        args += (north - height, north + height, east - width, east + width)
    return Condition("coords", f"param = ? AND {either(parts)}", tuple(args), "", 3)


_UNITS = {
    "km": 1.0,
    "m": 0.001,
    "mi": 1.609344,
    "mi_i": 1.609344,
    "[mi_i]": 1.609344,
    "mi_us": 1.609347,
    "ft": 0.0003048,
}


def either(parts: Sequence[str]) -> str:
    """The parts joined by OR, in parentheses."""
    return parts[0] if len(parts) == 1 else "(" + " OR ".join(f"({part})" for part in parts) + ")"


BY_KIND: dict[str, Callable[[int, Sequence[str], str], Condition]] = {
    "token": tokens,
    "string": strings,
    "uri": uris,
    "number": numbers,
    "quantity": quantities,
    "special": coords,
}
