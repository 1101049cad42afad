"""Parses an expression into a tree, by the precedence of FHIRPath's operators.

`left` of a step is None at the beginning of an expression, where the step is taken from the current input.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from fhir_server.expressions.errors import FhirPathError


@dataclass(frozen=True, slots=True)
class Literal:
    """A boolean, a text, an integer or a decimal."""

    value: bool | str | int | Decimal


@dataclass(frozen=True, slots=True)
class MomentLiteral:
    """A date, a date with time, or a time, as written behind `@`."""

    text: str


@dataclass(frozen=True, slots=True)
class QuantityLiteral:
    """A number with a unit of UCUM, or with a calendar's unit such as `days`."""

    value: Decimal
    unit: str


@dataclass(frozen=True, slots=True)
class Set:
    """`{}`, or the values of `{'a', 'b'}`, which is not part of the standard."""

    members: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """`%name`, `$this`, `$index` or `$total`, with its first character."""

    name: str


@dataclass(frozen=True, slots=True)
class Member:
    """An element by its name; at the beginning of an expression, perhaps a type."""

    left: Tree | None
    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function with its arguments."""

    left: Tree | None
    name: str
    arguments: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Index:
    """One member of a list by its position."""

    left: Tree
    position: Tree


@dataclass(frozen=True, slots=True)
class Binary:
    """An operator between two operands."""

    symbol: str
    left: Tree
    right: Tree


@dataclass(frozen=True, slots=True)
class TypeOperation:
    """`is` or `as`, and a type, perhaps with its namespace."""

    symbol: str
    left: Tree
    type_name: str


@dataclass(frozen=True, slots=True)
class Minus:
    """A negated operand."""

    operand: Tree


Tree: TypeAlias = (
    Literal | MomentLiteral | QuantityLiteral | Set | Variable | Member | Call | Index | Binary | TypeOperation | Minus
)

_TOKEN = re.compile(
    r"""(?:\s|//[^\n]*|(?>/\*.*?\*/))*+
    (?:(?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<moment>@(?:T\d\d(?::\d\d(?::\d\d(?:\.\d+)?)?)?
        |\d{4}(?:-\d\d(?:-\d\d)?)?(?:T(?:\d\d(?::\d\d(?::\d\d(?:\.\d+)?)?)?(?:Z|[+-]\d\d:\d\d)?)?)?))
    |(?P<number>\d+(?:\.\d+)?)
    |(?P<quoted>`(?:[^`\\]|\\.)*`)
    |(?P<variable>%(?:\w+|`[^`]*`|'[^']*'|"[^"]*")|\$(?:this|index|total)\b)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<sign><=|>=|!=|!~|[=<>~+\-*/|&.,()\[\]{}]))""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_BLANK = re.compile(r"(?:\s|//[^\n]*|(?>/\*.*?\*/))*+", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "'": "'", '"': '"', "`": "`", "\\": "\\", "/": "/"}
LEVELS = {
    "implies": 0,
    "or": 1,
    "xor": 1,
    "and": 2,
    "in": 3,
    "contains": 3,
    "=": 4,
    "~": 4,
    "!=": 4,
    "!~": 4,
    "<=": 5,
    "<": 5,
    ">": 5,
    ">=": 5,
    "|": 6,
    "is": 7,
    "as": 7,
    "+": 8,
    "-": 8,
    "&": 8,
    "*": 9,
    "/": 9,
    "div": 9,
    "mod": 9,
}
"""How tightly each operator binds in FHIRPath."""
_WORDS = frozenset(("and", "or", "xor", "implies", "div", "mod"))
"""Names that must be quoted at the beginning of an expression."""
CALENDAR = ("year", "month", "week", "day", "hour", "minute", "second", "millisecond")
"""The units of a calendar; `s` may follow."""
_CALENDAR = frozenset((*CALENDAR, *(f"{unit}s" for unit in CALENDAR)))
MAX_EXPRESSION = 100_000
"""The most characters of an expression."""
MAX_DIGITS = 40
"""The most characters of a number in an expression."""
MAX_DEPTH = 120
"""The most steps inside each other: a path, brackets and operators together."""


def parse(text: str, levels: Mapping[str, int] = LEVELS) -> Tree:
    """The tree of an expression.

    Raises:
        FhirPathError: the text is not an expression, or is too long or too deep.
    """
    if len(text) > MAX_EXPRESSION:
        raise FhirPathError(f"an expression may have at most {MAX_EXPRESSION:,} characters")
    parser = _Parser(text, levels)
    tree = parser.expression(0)
    if parser.tokens:
        raise FhirPathError(f"{text}: unexpected {parser.tokens[0][1]} after the expression")
    _check_depth(tree)
    return tree


def inner(tree: Tree) -> Iterator[Tree]:
    """The trees directly inside a tree."""
    match tree:
        case Member(left=left) if left is not None:
            yield left
        case Call(left=left, arguments=arguments):
            if left is not None:
                yield left
            yield from arguments
        case Index(left=left, position=position):
            yield from (left, position)
        case Binary(left=left, right=right):
            yield from (left, right)
        case TypeOperation(left=left):
            yield left
        case Minus(operand=operand):
            yield operand
        case Set(members=members):
            yield from members


def parts(tree: Tree) -> Iterator[Tree]:
    """A tree, and all trees inside it."""
    trees = [tree]
    while trees:
        part = trees.pop()
        yield part
        trees += inner(part)


def _check_depth(tree: Tree) -> None:
    trees, depth = [tree], 0
    while trees:
        trees = [part for outer in trees for part in inner(outer)]
        depth += 1
        if depth > MAX_DEPTH:
            raise FhirPathError(f"an expression may have at most {MAX_DEPTH} steps inside each other")


class _Parser:
    """Recursive descent; each method consumes the tokens that it reads."""

    def __init__(self, text: str, levels: Mapping[str, int]) -> None:
        self._levels = levels
        self.tokens = deque(_tokens(text))
        self._text = text
        self._depth = 0

    def _next(self) -> tuple[str, str]:
        if not self.tokens:
            raise FhirPathError(f"{self._text}: the expression is incomplete")
        return self.tokens.popleft()

    def _is(self, *texts: str) -> bool:
        return bool(self.tokens) and self.tokens[0][0] in ("sign", "name") and self.tokens[0][1] in texts

    def _expect(self, text: str) -> None:
        token = self._next()[1]
        if token != text:
            raise FhirPathError(f"{self._text}: {text} is expected instead of {token}")

    def expression(self, level: int) -> Tree:
        """Operands joined by operators of a level or tighter ones, from left to right."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise FhirPathError(f"an expression may have at most {MAX_DEPTH} steps inside each other")
        left = self._unary()
        while self.tokens and self.tokens[0][0] in ("sign", "name"):
            symbol = self.tokens[0][1]
            tightness = self._levels.get(symbol, -1)
            if tightness < level:
                break
            self.tokens.popleft()
            if symbol in ("is", "as"):
                left = TypeOperation(symbol, left, self._type())
            else:
                left = Binary(symbol, left, self.expression(tightness + 1))
        self._depth -= 1
        return left

    def _unary(self) -> Tree:
        negations = 0
        while self._is("-", "+"):
            negations += self._next()[1] == "-"
        tree = self._path()
        return Minus(tree) if negations % 2 else tree

    def _path(self) -> Tree:
        tree = self._first()
        while self._is(".", "["):
            if self._next()[1] == ".":
                tree = self._step(tree)
            else:
                tree = Index(tree, self.expression(0))
                self._expect("]")
        return tree

    def _first(self) -> Tree:
        kind, text = self.tokens[0] if self.tokens else ("", "")
        if kind == "name" and text not in ("true", "false"):
            if text in _WORDS:
                raise FhirPathError(f"{self._text}: {text} is not expected")
            return self._step(None)
        if kind == "quoted":
            return self._step(None)
        self._next()
        match kind:
            case "string":
                return Literal(_unescaped(text[1:-1]))
            case "moment":
                return MomentLiteral(text[1:])
            case "number":
                return self._number(text)
            case "variable":
                return Variable(text[0] + text[1:].strip("`'\""))
            case "name":
                return Literal(text == "true")
        if text == "(":
            tree = self.expression(0)
            self._expect(")")
            return tree
        if text == "{":
            return Set(self._list("}"))
        raise FhirPathError(f"{self._text}: {text} is not expected")

    def _number(self, text: str) -> Tree:
        if len(text) > MAX_DIGITS:
            raise FhirPathError(f"a number may have at most {MAX_DIGITS} digits")
        if self.tokens:
            kind, unit = self.tokens[0]
            if kind == "string" or (kind == "name" and unit in _CALENDAR):
                self.tokens.popleft()
                return QuantityLiteral(Decimal(text), _unescaped(unit[1:-1]) if kind == "string" else unit)
        return Literal(Decimal(text) if "." in text else int(text))

    def _step(self, left: Tree | None) -> Tree:
        kind, text = self._next()
        if kind == "variable" and text[0] == "$" and left is not None:
            return Call(left, "select", (Variable(text),))
        if kind not in ("name", "quoted"):
            raise FhirPathError(f"{self._text}: {text} is not expected")
        name = _unescaped(text[1:-1]) if kind == "quoted" else text
        if self._is("("):
            self._next()
            return Call(left, name, self._list(")"))
        return Member(left, name)

    def _list(self, end: str) -> tuple[Tree, ...]:
        trees: list[Tree] = []
        while not self._is(end):
            if trees:
                self._expect(",")
            trees.append(self.expression(0))
        self._expect(end)
        return tuple(trees)

    def _type(self) -> str:
        names = [self._type_part()]
        while self._is("."):
            self._next()
            names.append(self._type_part())
        return ".".join(names)

    def _type_part(self) -> str:
        kind, text = self._next()
        if kind not in ("name", "quoted"):
            raise FhirPathError(f"{self._text}: a type is expected instead of {text}")
        return text.strip("`")


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    position = 0
    end = len(text)
    while (match := _TOKEN.match(text, position)) is not None:
        kind = str(match.lastgroup)
        tokens.append((kind, match[kind]))
        position = match.end()
    blank = _BLANK.match(text, position)
    position = blank.end() if blank else position
    if position < end:
        raise FhirPathError(f"{text}: cannot be read at {text[position : position + 20]}")
    return tokens


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        escaped = match[1]
        if escaped[0] == "u" and len(escaped) == 5:
            return chr(int(escaped[1:], 16))
        if escaped not in _ESCAPES:
            raise FhirPathError(f"\\{escaped} is not an escape sequence")
        return _ESCAPES[escaped]

    return _ESCAPE.sub(character, text)
