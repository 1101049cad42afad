"""Prints every error that the command line can print, from the code, for a review of their words.

    python tools/messages.py             # place, class and text; {…} is an expression
    python tools/messages.py has         # those that contain a text

An error says what happened, which input (file, line, field, value), and what to do.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("medagent", "refsol")
FAMILIES = ("MedagentError", "RefsolError")
"""Errors that `medagent` prints as one line; of any other, a user sees a traceback."""


@dataclass(frozen=True, slots=True)
class Message:
    """One error: its place (`FILE:LINE`), its class, and its text."""

    place: str
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}  {self.kind}  {self.text}"


def messages() -> Iterator[Message]:
    """All errors, in the order of the files."""
    trees = {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8"))
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }
    kinds = _kinds(trees.values())
    for path, tree in trees.items():
        validated = {"ValueError"} if path.endswith("settings.py") else set()  # pydantic's, which name the option
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _name(node.func) in kinds | validated and node.args:
                yield Message(f"{path}:{node.lineno}", _name(node.func), _text(node.args[0]))


def _kinds(trees: Iterable[ast.Module]) -> set[str]:
    """The classes of the families."""
    bases = {
        node.name: {_name(base) for base in node.bases}
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    kinds = {*FAMILIES}
    while more := {name for name, above in bases.items() if above & kinds} - kinds:
        kinds |= more
    return kinds


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _text(node: ast.expr) -> str:
    """A text as it is written, with its expressions in braces."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left) + _text(node.right)
    return f"{{{ast.unparse(node.value if isinstance(node, ast.FormattedValue) else node)}}}"


def main() -> None:
    """Print them, or those that contain a text."""
    text = " ".join(sys.argv[1:])
    listed = [message for message in messages() if text in message.text]
    print(*listed, sep="\n")
    print(f"{len(listed)} errors", file=sys.stderr)


if __name__ == "__main__":
    main()
