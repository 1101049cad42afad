"""Arithmetic for agents: numbers, lists, operators and a few functions, within limits."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from math import isfinite
from typing import Any

from refsol.python_text import python_expression

LONGEST, NODES = 4_000, 1_000
"""The most characters and parts of an expression."""
BITS, POWER = 1_024, 64
"""The most bits of a number, and the largest exponent."""

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "len": len,
    "max": max,
    "min": min,
    "round": round,
    "sum": sum,
}


class CalculationError(ValueError):
    """An expression cannot be calculated; the text says why."""


def calculated(expression: str) -> str:
    """The value of an expression as text. Raises CalculationError."""
    if len(expression) > LONGEST:
        raise CalculationError(f"the expression is over {LONGEST:,} characters")
    try:
        tree = python_expression(expression.strip())
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise CalculationError("the expression is not arithmetic") from None
    if sum(1 for _ in ast.walk(tree)) > NODES:
        raise CalculationError(f"the expression contains over {NODES:,} parts")
    try:
        return str(_value(tree))
    except CalculationError:
        raise
    except ZeroDivisionError:
        raise CalculationError("division by zero") from None
    except (ArithmeticError, TypeError, ValueError, RecursionError) as error:
        raise CalculationError(str(error) or "the expression cannot be calculated") from None


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return _bounded(node.value)
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(element) for element in node.elts]
    if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        return _UNARY[type(node.op)](_number(node.operand))
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left, right = _number(node.left), _number(node.right)
        if isinstance(node.op, ast.Pow) and abs(right) > POWER:
            raise CalculationError(f"an exponent is over {POWER}")
        return _bounded(_BINARY[type(node.op)](left, right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        function = _FUNCTIONS.get(node.func.id)
        if function is not None:
            return _bounded(function(*map(_value, node.args)))
    raise CalculationError("only numbers, lists, + - * / // % **, and " + ", ".join(_FUNCTIONS))


def _number(node: ast.expr) -> Any:
    value = _value(node)
    if isinstance(value, list):
        raise CalculationError("an operator takes numbers, not lists")
    return value


def _bounded(value: Any) -> Any:
    """The value, if it is a number within limits. Raises CalculationError."""
    if isinstance(value, complex):
        raise CalculationError("the result is not a real number")
    if isinstance(value, float) and not isfinite(value):
        raise CalculationError("the result is not finite")
    if isinstance(value, int) and value.bit_length() > BITS:
        raise CalculationError(f"a number takes over {BITS} bits")
    return value
