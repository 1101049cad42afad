"""Where HAPI FHIR 7.6.0 reads an expression in another way than FHIRPath.

Such an expression would index other values than HAPI does, so a stored search parameter may not contain it.
"""

from __future__ import annotations

from collections.abc import Iterator

from fhir_server.expressions.functions import FUNCTIONS, SPECIAL
from fhir_server.expressions.parser import LEVELS, Binary, Call, Index, Member, Set, Tree, Variable, inner, parse, parts

_IN_HAPI = LEVELS | {
    **dict.fromkeys(("in", "contains"), 0),
    **dict.fromkeys(("implies",), 1),
    **dict.fromkeys(("or", "xor"), 2),
    **dict.fromkeys(("and",), 3),
    **dict.fromkeys(("=", "~", "!=", "!~"), 4),
    **dict.fromkeys(("is", "as"), 5),
    **dict.fromkeys(("<", "<=", ">", ">="), 6),
    "|": 7,
}
"""How tightly each operator binds in HAPI."""
_NUMBERED = frozenset(("select", "repeat", "aggregate"))
"""The functions that number the nodes of a list for `$index` in HAPI."""
_OF_FOCUS = frozenset(("intersect", "exclude", "subsetOf", "supersetOf"))
"""The functions whose argument HAPI evaluates for the nodes before them."""
_NOT_IN_HAPI = frozenset(("sort", "getValue", "lastIndexOf", "toDate", "timeOfDay"))
_ONLY_IN_HAPI = frozenset(("memberOf", "defineVariable"))


def unknown_function(tree: Tree) -> str | None:
    """The name of a function that HAPI does not know."""
    known = (FUNCTIONS.keys() | SPECIAL | _ONLY_IN_HAPI) - _NOT_IN_HAPI
    return next((name for name, _ in calls(tree) if name not in known), None)


def difference(expression: str) -> str | None:
    """Why this server does not take an expression that HAPI takes; None if it does."""
    tree = parse(expression)
    if any(isinstance(part, Set) and part.members for part in parts(tree)):
        return "{…} with values is not FHIRPath; write ('a' | 'b')"
    for name, _ in calls(tree):
        if name in _ONLY_IN_HAPI:
            return f"this server cannot evaluate {name}()"
        if name == "conformsTo":
            return "HAPI knows no profiles in conformsTo(), and always says false"
    if parse(expression, _IN_HAPI) != tree:
        return "HAPI groups its operators in another way than FHIRPath; write brackets around each operation"
    if _has_unnumbered_index(tree):
        return "HAPI numbers nodes for $index only in select()"
    for part in parts(tree):
        if _has_relative_argument(part):
            return "HAPI evaluates this argument for another node than FHIRPath; begin its path with $this"
    return None


def calls(tree: Tree) -> Iterator[tuple[str, tuple[Tree, ...]]]:
    """The functions that a tree calls: names and arguments."""
    for part in parts(tree):
        if isinstance(part, Call):
            yield part.name, part.arguments


def _has_unnumbered_index(tree: Tree, *, numbered: bool = False) -> bool:
    if tree == Variable("$index"):
        return not numbered
    if isinstance(tree, Call):
        inside = numbered if tree.name == "iif" else tree.name in _NUMBERED
        if any(_has_unnumbered_index(argument, numbered=inside) for argument in tree.arguments):
            return True
        return tree.left is not None and _has_unnumbered_index(tree.left, numbered=numbered)
    return any(_has_unnumbered_index(part, numbered=numbered) for part in inner(tree))


def _has_relative_argument(tree: Tree) -> bool:
    match tree:
        case Call(name=name, arguments=arguments) if name in _OF_FOCUS:
            return any(_is_relative(argument) for argument in arguments)
        case Index(position=position):
            return _is_relative(position)
    return False


def _is_relative(tree: Tree) -> bool:
    """Whether a tree begins with the name of an element."""
    match tree:
        case Member(left=None):
            return True
        case Call(left=None):
            return True
        case Member(left=left) | Call(left=left):
            return left is not None and _is_relative(left)
        case Binary(left=left, right=right):
            return _is_relative(left) or _is_relative(right)
        case Index(left=left):
            return _is_relative(left)
    return any(_is_relative(part) for part in inner(tree))
