"""Finds prose and names that docs/glossary.md and the project's style rule out.

    python tools/words.py            # the whole tree, without tests
    python tools/words.py PATH ...   # these files and folders

Phrases are searched in comments, docstrings and Markdown. Code, quotes and other strings may hold them. Names are
checked where they are assigned or are parameters. `# words: ok` at the end of a line allows it, at most ten times.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
_PACKAGES = ("fhir_server", "medagent", "refsol")
_FOLDERS = ("benchmarks", "docs", "environments", "examples", "integrations", "results", "tools")
TREE = (*_PACKAGES, *_FOLDERS, "*.md")
"""What `make lint` checks: folders and files, `*` for any. Tests may name and say what they like."""
ALLOWED = 10
OK = re.compile(r"# words: ok$")
NAMES = frozenset(("found", "given", "said", "asked", "kept", "told", "wanted"))


class Phrase(NamedTuple):
    """A regular expression (a space matches any white space), a text that it must find, how to say that instead, and a
    similar text that it must not find.
    """

    pattern: str
    finds: str
    plain: str
    passes: str


PHRASES = (
    Phrase(r"lest", "lest an order be placed twice", "so that no order is placed twice", "at least"),
    Phrase(r"anew", "the report is made anew", "the report is recomputed", "renewed"),
    Phrase(r"befall(?:s|en|ing)?|befell", "no fault befalls them", "they have no faults", "fall"),
    Phrase(r"but for", "all but for the last", "all except the last", "but forward"),
    Phrase(r"(?:go|goes|gone|going) on with", "the run is gone on with", "the run is continued", "it goes on without"),
    Phrase(r"so many", "at most so many bytes", "at most N bytes", "so, many"),
    Phrase(r"such (?:a|an) one|such ones", "most requests are such ones", "most requests are GETs", "such a request"),
    Phrase(r"holds? no", "it holds no episode", "it has no episode", "holds notes"),
    Phrase(r"of (?:one's own|yours|theirs|mine)", "a class of one's own", "your own class", "of yourself"),
    Phrase(r"whatever became", "whatever became of it", "even if it was deleted", "what became"),
    Phrase(r"at (?:its|one's|their) hand", "with the model at its hand", "with the model", "at its handle"),
    Phrase(r"other people's", "classes of other people's", "user-defined classes", "other people"),
    Phrase(r"what is (?:\w+ ){1,3}is", "what is done is counted", "finished units are counted", "what is counted"),
    Phrase(
        r"stands? (?:there|beside|apart|alone|twice)", "the id stands there twice", "duplicate id", "it stands for one"
    ),
    Phrase(
        r"stands? in (?:a|an|the|no|its)",
        "it stands in no journal",
        "the journal does not have it",
        "it stands in front",
    ),
    Phrase(r"under way", "units that are under way", "units in progress", "underway"),
    Phrase(r"ways? on", "three ways on", "choose one", "the way of it"),
    Phrase(r"(?:comes?|came) along", "agents that come along", "bundled agents", "comes alone"),
    Phrase(r"be had", "that cannot be had", "that is not available", "to be hard"),
    Phrase(r"where (?:somebody|nobody)", "where somebody wants it", "if there is a listener", "where somewhere"),
    Phrase(
        r"(?:nobody|somebody) (?:asks|asked|wants|wanted|else's)", "nobody asked it", "nobody read it", "not cached"
    ),
    Phrase(r"nothing but", "it needs nothing but Python", "it needs only Python", "nothing, but one"),
    Phrase(r"for so long", "no reply for so long", "no reply for N seconds", "for long"),
    Phrase(
        r"holds? of (?:every|any|all|none|one)",
        "it holds of every row",
        "it is true for every row",
        "a household of one",
    ),
    Phrase(r"in no (?:sum|journal|file|list)", "its cost is in no sum", "its cost is not counted", "in no case"),
    Phrase(r"goes? another way", "it goes another way than HAPI", "it differs from HAPI", "goes another day"),
    Phrase(r"is it that", "so it is it that asks", "so it asks", "is it those"),
    Phrase(
        r"(?:one|those|ones|command|option) that there (?:is|are)",
        "those that there are",
        "those that exist",
        "those that exist",
    ),
)
_ANY = re.compile(
    "|".join(rf"\b(?:{phrase.pattern})\b".replace(" ", r"(?:\s|#)+") for phrase in PHRASES), re.IGNORECASE
)
_NAME = re.compile(rf"\b(?:{'|'.join(NAMES)})(?=\s*(?::?=(?!=)|[]:,)]|in\b))")
"""Where a name may be assigned; the syntax tree decides."""
_QUOTED = re.compile(r"``?[^`]+`?`|\"[^\"\n]*\"|“[^”]*”|<!--.*?-->", re.DOTALL)
_MARKDOWN_CODE = re.compile(r"^( *)(```+|~~~+).*?^\1\2|^>.*?$|`[^`]+`|\"[^\"]*\"|“[^”]*”", re.DOTALL | re.MULTILINE)


class Match(NamedTuple):
    """A place of a file, and what is wrong there."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        shown = self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path
        return f"{shown}:{self.line}: {self.text}"


def files(paths: Iterable[Path]) -> Iterator[Path]:
    """The Python and Markdown files below paths. A missing path is an error."""
    for path in paths:
        if not path.exists():
            raise SystemExit(f"{path}: no such file or folder")
        listed = sorted((*path.rglob("*.py"), *path.rglob("*.md"))) if path.is_dir() else [path]
        yield from listed


def tree() -> Iterator[Path]:
    """The folders and files of `TREE`."""
    return (path for name in TREE for path in sorted(ROOT.glob(name)))


def check(path: Path) -> Iterator[Match]:
    """What is wrong in one file, allowed lines included."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from _phrases(path, _MARKDOWN_CODE.sub(_blank, text), 1)
        return
    prose, names = _ANY.search(text), _NAME.search(text)
    if not prose and not names:
        return
    tree = ast.parse(text, str(path))
    if prose:
        for line, part in (*_docstrings(tree), *_comments(text)):
            yield from _phrases(path, _QUOTED.sub(_blank, part), line)
    if names:
        for line, name in _assigned(tree):
            yield Match(path, line, f"the name `{name}`: use a noun of the field")


def allowed(match: Match) -> bool:
    """Whether the line ends with `# words: ok`."""
    return bool(OK.search(match.path.read_text(encoding="utf-8").splitlines()[match.line - 1]))


def main(arguments: list[str]) -> int:
    """Print what is wrong; 1 if there is anything, or if too many lines are allowed."""
    matches = [match for path in files(map(Path, arguments) if arguments else tree()) for match in check(path)]
    wrong = [match for match in matches if not allowed(match)]
    for match in wrong:
        print(match)
    if len(matches) - len(wrong) > ALLOWED:
        print(f"{len(matches) - len(wrong)} lines end with `# words: ok`; at most {ALLOWED} may")
        return 1
    return bool(wrong)


def _phrases(path: Path, prose: str, first_line: int) -> Iterator[Match]:
    for match in _ANY.finditer(prose):
        words = " ".join(match[0].replace("#", " ").split())
        line = first_line + prose.count("\n", 0, match.start())
        yield Match(path, line, f'"{words}": write plainly, as in "{_plain(words)}"')


def _plain(words: str) -> str:
    return next(phrase.plain for phrase in PHRASES if re.fullmatch(phrase.pattern, words, re.IGNORECASE))


def _blank(quoted: re.Match[str]) -> str:
    """A quote becomes its line breaks, so that line numbers stay right."""
    return "|" + "\n" * quoted[0].count("\n")


def _docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Strings that are statements: docstrings of modules, classes and functions, and those under attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """Comments; those on consecutive lines are one."""
    block: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        if block and token.start[0] != last + 1:
            yield last - len(block) + 1, "\n".join(block)
            block = []
        block.append(token.string)
        last = token.start[0]
    if block:
        yield last - len(block) + 1, "\n".join(block)


def _assigned(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Variables and parameters with a name that is ruled out. Fields in a class body are attributes."""
    fields = {
        id(target)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        for target in getattr(statement, "targets", [getattr(statement, "target", None)])
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) if name in NAMES and id(node) not in fields:
                yield node.lineno, name
            case ast.arg(arg=name) if name in NAMES:
                yield node.lineno, name
            case ast.ExceptHandler(name=name) | ast.MatchAs(name=name) | ast.MatchStar(name=name) if name in NAMES:
                yield node.lineno, str(name)
            case _:
                pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
