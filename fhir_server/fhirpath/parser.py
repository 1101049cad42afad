"""Parses an expression into a tree, by the precedence of FHIRPath's operators.

A tree is a tuple whose first member is its kind: `("literal", value)`, `("variable", name)`, `("member", left,
name)`, `("call", left, name, arguments)`, `("index", left, right)`, `("binary", operator, left, right)`,
`("type", operator, left, type)` and `("minus", operand)`; `left` is None at the beginning of an expression.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeAlias

Tree: TypeAlias = tuple[Any, ...]

_TOKEN = re.compile(
    r"\s*(?:(?P<string>'(?:[^'\\]|\\.)*')|(?P<number>\d+(?:\.\d+)?)|(?P<quoted>`[^`]*`)"
    r"|(?P<variable>%(?:\w+|`[^`]*`))|(?P<name>[$A-Za-z_]\w*)|(?P<sign><=|>=|!=|!~|[=<>~+\-*/|&.,()\[\]{}]))"
)
_LEVELS = (
    ("implies",),
    ("or", "xor"),
    ("and",),
    ("in", "contains"),
    ("=", "~", "!=", "!~"),
    ("<=", "<", ">", ">="),
    ("|",),
    ("is", "as"),
    ("+", "-", "&"),
    ("*", "/", "div", "mod"),
)
"""Operators from the loosest to the tightest."""
MAX_EXPRESSION = 100_000
"""The most characters of an expression."""
MAX_DIGITS = 40
"""The most characters of a number in an expression."""
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}


class FhirPathError(Exception):
    """An expression that cannot be parsed, or that uses an unknown name."""


class TooCostlyError(Exception):
    """An expression takes more steps than its budget allows, or would build a text that is too long."""


@lru_cache(maxsize=1024)
def parse(text: str) -> Tree:
    """The tree of an expression.

    Raises:
        FhirPathError: the text is not an expression, or contains unsupported parts.
    """
    if len(text) > MAX_EXPRESSION:
        raise FhirPathError(f"an expression may have at most {MAX_EXPRESSION} characters")
    parser = _Parser(text)
    tree = parser.expression(0)
    if parser.tokens:
        raise FhirPathError(f"{text}: unexpected {parser.tokens[0][1]} after the expression")
    return tree


def calls(tree: Tree) -> Iterator[tuple[str, list[Tree]]]:
    """The functions that a tree calls: names and arguments."""
    if tree[0] == "call":
        yield tree[2], tree[3]
    for part in tree[1:]:
        for inner in part if isinstance(part, list) else [part]:
            if isinstance(inner, tuple):
                yield from calls(inner)


class _Parser:
    """Recursive descent; each method consumes the tokens that it reads."""

    def __init__(self, text: str) -> None:
        self.tokens = deque(_tokens(text))
        self._text = text

    def _next(self) -> tuple[str, str]:
        if not self.tokens:
            raise FhirPathError(f"{self._text}: the expression is incomplete")
        return self.tokens.popleft()

    def _is(self, *texts: str) -> bool:
        return bool(self.tokens) and self.tokens[0][0] in ("sign", "name") and self.tokens[0][1] in texts

    def _expect(self, text: str) -> None:
        if self._next()[1] != text:
            raise FhirPathError(f"{self._text}: {text} is expected")

    def expression(self, level: int) -> Tree:
        """Operands joined by the operators of a level, from left to right."""
        if level == len(_LEVELS):
            return self._unary()
        left = self.expression(level + 1)
        while self._is(*_LEVELS[level]):
            operator = self._next()[1]
            if operator in ("is", "as"):
                left = ("type", operator, left, self._type())
            else:
                left = ("binary", operator, left, self.expression(level + 1))
        return left

    def _unary(self) -> Tree:
        if self._is("-", "+"):
            sign = self._next()[1]
            operand = self._unary()
            return ("minus", operand) if sign == "-" else operand
        tree = self._step(None)
        while self._is(".", "["):
            if self._next()[1] == ".":
                tree = self._step(tree)
            else:
                tree = ("index", tree, self.expression(0))
                self._expect("]")
        return tree

    def _step(self, left: Tree | None) -> Tree:
        kind, text = self._next()
        if left is None:
            if kind == "string":
                return ("literal", _unescaped(text[1:-1]))
            if kind == "number":
                if len(text) > MAX_DIGITS:
                    raise FhirPathError(f"a number may have at most {MAX_DIGITS} digits")
                return ("literal", Decimal(text))
            if kind == "variable":
                return ("variable", text[1:].strip("`"))
            if text in ("true", "false"):
                return ("literal", text == "true")
            if text == "(":
                tree = self.expression(0)
                self._expect(")")
                return tree
            if text == "{":
                self._expect("}")
                return ("nothing",)
        if kind not in ("name", "quoted"):
            raise FhirPathError(f"{self._text}: {text} is not expected")
        name = text.strip("`")
        if self._is("("):
            return ("call", left, name, self._arguments())
        return ("member", left, name)

    def _arguments(self) -> list[Tree]:
        self._expect("(")
        arguments: list[Tree] = []
        while not self._is(")"):
            arguments.append(self.expression(0))
            if not self._is(")"):
                self._expect(",")
        self._expect(")")
        return arguments

    def _type(self) -> str:
        name = self._next()[1]
        while self._is("."):
            self._next()
            name = self._next()[1]
        return name.strip("`")


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, at = [], 0
    end = len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise FhirPathError(f"{text}: cannot be read at {text[at : at + 20]}")
        tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))
        at = match.end()
    return tokens


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text)
