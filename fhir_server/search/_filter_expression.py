"""`_filter`: expressions of the FHIR search filter grammar (R4, search_filter.html), as far as indexes can answer them.

Example: `name eq "smith" and (birthdate ge 1970 or not(active eq false))`. `eq` compares the whole normalised text of a
string.
"""

from __future__ import annotations

import re
from dataclasses import replace

from fhir_server.errors import FhirError
from fhir_server.search.condition import Condition, Criterion, Sql, of_type
from fhir_server.search.kinds.kind import SearchScope
from fhir_server.search.kinds.string import fold
from fhir_server.search.query import criteria, unknown_parameter

_TOKEN = re.compile(r'\s*(\(|\)|"(?:[^"\\]|\\.)*"|[^\s()"]+)')
_DATE_LIKE = ("date", "quantity", "number")
MAX_TOKENS = 200


def filtered(scope: SearchScope, criterion: Criterion) -> Condition:
    """The condition of a `_filter`. Raises FhirError, 400, if it cannot be parsed."""
    text = criterion.values[0]
    tokens = _TOKEN.findall(text)
    if len(tokens) > MAX_TOKENS or "".join(tokens).replace(" ", "") != re.sub(r"\s", "", text).replace(" ", ""):
        raise _unreadable(text)
    parser = _FilterParser(scope, text, tokens)
    sql, args = parser.expression()
    if parser.rest:
        raise _unreadable(text)
    return of_type(scope.resource_type, sql, args, weight=7)


def _unreadable(text: str) -> FhirError:
    return FhirError(400, f"HAPI-1221: Error parsing _filter syntax: {text}")


class _FilterParser:
    """A recursive descent parser. Each method consumes the tokens that it reads."""

    def __init__(self, scope: SearchScope, text: str, tokens: list[str]) -> None:
        self._scope = scope
        self._type = scope.resource_type
        self._text = text
        self.rest = tokens

    def _next(self) -> str:
        if not self.rest:
            raise _unreadable(self._text)
        return self.rest.pop(0)

    def expression(self) -> Sql:
        """Terms joined by `and` and `or`, from left to right."""
        sql, args = self._term()
        while self.rest and self.rest[0] in ("and", "or"):
            word = self._next().upper()
            more, more_args = self._term()
            sql, args = f"({sql} {word} {more})", args + more_args
        return sql, args

    def _term(self) -> Sql:
        token = self._next()
        if token == "(":
            sql, args = self.expression()
            if self._next() != ")":
                raise _unreadable(self._text)
            return f"({sql})", args
        if token == "not" and self.rest and self.rest[0] == "(":
            sql, args = self._term()
            return f"NOT {sql}", args
        return self._comparison(token, self._next(), self._next())

    def _comparison(self, name: str, operator: str, value: str) -> Sql:
        known = self._scope.registry.parameters(self._type).get(name.partition(".")[0].partition(":")[0])
        if known is None:
            raise unknown_parameter(self._scope.registry, self._type, name, "1206")
        value = re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value
        if operator == "pr":
            criterion = Criterion(name, "missing", ("false" if value == "true" else "true",))
            return self._joined(self._scope.conditions(self._type, [criterion]))
        negated = operator == "ne" and known.kind not in _DATE_LIKE
        if known.kind in _DATE_LIKE and operator in ("eq", "ne", "gt", "ge", "lt", "le", "sa", "eb", "ap"):
            value = operator + value
        elif operator not in ("eq", "ne", "co", "sw"):
            raise FhirError(400, f"HAPI-1221: Operator {operator} is not supported for {name}")
        conditions = self._scope.conditions(
            self._type, criteria(self._scope.registry, self._type, name, value.replace(",", "\\,"))
        )
        if known.kind == "string" and operator != "sw":
            conditions = [_whole(condition, value, contains=operator == "co") for condition in conditions]
        sql, args = self._joined(conditions)
        return (f"NOT ({sql})" if negated else sql), args

    def _joined(self, conditions: list[Condition]) -> Sql:
        sql = " AND ".join(condition.filter("@row_id") for condition in conditions) or "1"
        return f"({sql})", tuple(arg for condition in conditions for arg in condition.args)


def _whole(condition: Condition, value: str, *, contains: bool) -> Condition:
    """A string condition on the whole text, or with `contains` on any part of it."""
    where = "param = ? AND instr(norm, ?) > 0" if contains else "param = ? AND norm = ?"
    return replace(condition, where=where, args=(condition.args[0], fold(value)))
