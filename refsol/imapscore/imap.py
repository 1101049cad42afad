"""imaps: what a text asks (Query), presupposes (Constraint) and states (Inform), as ordered (term, value) pairs.

The text format is one pair per line, component first: `Query-disease-?`, `Constraint-age-28`, `Inform-diagnosis-flu`,
and `Inform-None` if nothing is stated (paper, section 3). Models add bullets, Markdown, other dashes and prose, so
`parse` skips lines that are not pairs and warns about every guess. Pairs are compared by `normal` text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from refsol.errors import InputError

# Unicode's dash punctuation, the minus sign, the hyphen bullet, and the box lines that serve as dashes in Chinese.
_OTHER_DASHES = (
    "\u058a\u05be\u1400\u1806\u2010-\u2015\u2043\u2212\u2500\u2501\u2e17\u2e1a\u2e3a\u2e3b\u2e40\u2e5d"
    "\u301c\u3030\u30a0\U00010ead"
)
_DASHES = re.compile(f"[-{_OTHER_DASHES}]+")
_MARKDOWN = re.compile(r"`+|\*\*+|__+")
_UNTIDY = re.compile(f"[`*_{_OTHER_DASHES}]|--")  # one search; most texts need no substitution
_MARK = re.compile("[`*_]")
_WRAPPED = re.compile(r"([*_])((?:(?!\1).)+)\1")  # a single * inside a text is not markup: HLA-B*27
_COMPONENT = re.compile(
    r"(?:(?:[-+*•·●▪◦‣>#]|\(?\d{1,3}[.):、\]]?)\s*){0,3}[*_]?(query|constraint|inform)[*_]?\s*([-:])(.*)", re.IGNORECASE
)
_NONE_WORDS = frozenset({"none", "n/a", "无", "没有"})
_NO_VALUE = _NONE_WORDS | {"", "?", "[value]"}


@lru_cache(maxsize=1 << 12)
def tidy(text: str) -> str:
    """`text` in its stored format: NFKC, one kind of dash, no Markdown, single spaces."""
    if text.isascii() and not _MARK.search(text) and "--" not in text and " ".join(text.split()) == text:
        return text  # the usual case, without the slower steps below
    while True:
        tidied = " ".join(unicodedata.normalize("NFKC", text).split())
        if _UNTIDY.search(tidied):
            tidied = " ".join(_MARKDOWN.sub("", _DASHES.sub("-", tidied)).split())
            if wrapped := _WRAPPED.fullmatch(tidied):
                tidied = wrapped[2]
        if tidied == text:
            return text
        text = tidied


@lru_cache(maxsize=1 << 12)
def normal(text: str) -> str:
    """`text` in its compared format: tidy, case-folded, without trailing full stops, commas and semicolons."""
    return tidy(tidy(text).casefold()).rstrip("。.;, ")


def _tidy_term(term: str) -> str:
    while (tidied := tidy(term).strip(" -")) != term:
        term = tidied
    return term


@dataclass(frozen=True, slots=True)
class TermValue:
    """A term and one of its values, tidied. Two pairs are equal if their normal texts are."""

    term: str = field(compare=False)
    value: str = field(compare=False)
    key: tuple[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "term", _tidy_term(self.term))
        object.__setattr__(self, "value", tidy(self.value))
        object.__setattr__(self, "key", (normal(self.term), normal(self.value)))


@dataclass(frozen=True, slots=True)
class Imap:
    """Three ordered lists of pairs without duplicates. `explicit_none`: the text said that it informs of nothing.

    Raises InputError for a pair that the text format cannot express: no term, no value, or a Query whose value is not
    `?`.
    """

    query: tuple[TermValue, ...] = ()
    constraint: tuple[TermValue, ...] = ()
    inform: tuple[TermValue, ...] = ()
    explicit_none: bool = False

    def __post_init__(self) -> None:
        for name in ("query", "constraint", "inform"):
            object.__setattr__(self, name, tuple(dict.fromkeys(getattr(self, name))))
        object.__setattr__(self, "explicit_none", self.explicit_none and not self.inform)
        for pair in self.query:
            if pair.value != "?" or pair.key[0] in _NO_VALUE:
                raise InputError(f"{pair} is not a Query: it needs a term and the value ?")
        for pair in self.constraint + self.inform:
            if not pair.key[0] or pair.key[1] in _NO_VALUE:
                raise InputError(f"{pair} is not a Constraint or Inform: it needs a term and a value")

    @property
    def query_terms(self) -> tuple[str, ...]:
        """The terms of the Query pairs."""
        return tuple(pair.term for pair in self.query)

    @property
    def informed(self) -> dict[str, tuple[TermValue, ...]]:
        """The Inform pairs by normal term, in order of first appearance."""
        by_term: dict[str, list[TermValue]] = {}
        for pair in self.inform:
            by_term.setdefault(pair.key[0], []).append(pair)
        return {term: tuple(pairs) for term, pairs in by_term.items()}


@dataclass(frozen=True, slots=True)
class Parsed:
    """An imap read from text, with a warning for each guess or loss."""

    imap: Imap
    warnings: tuple[str, ...] = ()


def parse(text: str, terms: Sequence[str] = ()) -> Parsed:
    """Read an imap from a model's or a file's text. `terms` are the question's Query terms.

    Never raises: lines that are not pairs are skipped, and every guess is a warning with its line number.
    """
    reader = _Reader(terms)
    for number, line in enumerate(text.splitlines(), 1):
        if match := _COMPONENT.fullmatch(tidy(line)):
            component, separator, rest = match[1].lower(), match[2], match[3].strip()
            reader.read(number, component, rest, "-:" if separator == ":" else "-")
    return reader.parsed()


class _Reader:
    """Collects the pairs of one text. Each method gets the rest of the line after its component."""

    def __init__(self, terms: Sequence[str]) -> None:
        tidied = dict.fromkeys(filter(None, map(_tidy_term, terms)))
        self.terms = sorted(tidied, key=len, reverse=True)
        self.pairs: dict[str, list[TermValue]] = {"query": [], "constraint": [], "inform": []}
        self.warnings: list[str] = []
        self.said_none = False
        self.line = 0

    def read(self, line: int, component: str, rest: str, separators: str) -> None:
        self.line = line
        if "-" not in rest and normal(rest) in _NONE_WORDS:
            self.said_none |= component == "inform"
            return
        if component == "query":
            term, value = self._query(rest, separators)
        elif component == "constraint":
            term, value = self._constraint(rest, separators)
        else:
            term, value = self._inform(rest, separators)
        pair = TermValue(term, value)
        if not pair.key[0]:
            self._warn(f"a line without a term: {rest!r}")
        elif pair.key[0 if component == "query" else 1] not in _NO_VALUE:
            self.pairs[component].append(pair)
        elif pair.key[1] in _NONE_WORDS:
            self.said_none |= component == "inform"
        else:
            self._warn(f"a line without a value: {rest!r}")

    def parsed(self) -> Parsed:
        imap = Imap(
            tuple(self.pairs["query"]), tuple(self.pairs["constraint"]), tuple(self.pairs["inform"]), self.said_none
        )
        return Parsed(imap, tuple(self.warnings))

    def _warn(self, text: str) -> None:
        self.warnings.append(f"line {self.line}: {text}")

    def _query(self, rest: str, separators: str) -> tuple[str, str]:
        mark = re.search(rf"[{separators}]\s*\?", rest)
        if mark is None:
            self._warn(f"Query without `-?`: {rest!r} is taken as the term")
            return rest.rstrip(f"? {separators}"), "?"
        if normal(rest[mark.end() :]).strip("?"):
            self._warn(f"{rest[mark.end() :]!r} after `-?` is left out")
        return rest[: mark.start()], "?"

    def _constraint(self, rest: str, separators: str) -> tuple[str, str]:
        parts = re.split(f"[{separators}]", rest, maxsplit=1)
        return (parts[0], parts[1]) if len(parts) == 2 else (rest, "")

    def _inform(self, rest: str, separators: str) -> tuple[str, str]:
        for term in self.terms:
            value = _after_term(rest, term, separators)
            if value is not None:
                return term, value
        parts = re.split(f"[{separators}]", rest, maxsplit=1)
        if len(parts) == 2:
            if normal(parts[0]) not in map(normal, self.terms):
                self._warn(f"no Query term begins {rest!r}: split at the first hyphen")
            return parts[0], parts[1]
        if len(self.terms) == 1:
            self._warn(f"Inform without a term: {rest!r} is taken as a value of {self.terms[0]!r}")
            return self.terms[0], rest
        return "", rest


def _after_term(rest: str, term: str, separators: str) -> str | None:
    """The part of `rest` after `term` and a separator, or None if `rest` does not start with them."""
    match = _term_pattern(term).match(rest)
    if match is None:
        return None
    tail = rest[match.end() :].lstrip()
    if not tail:
        return ""
    return tail[1:] if tail[0] in separators else None


@lru_cache(maxsize=1 << 12)
def _term_pattern(term: str) -> re.Pattern[str]:
    """`term` in any case. Its hyphens may be surrounded by spaces."""
    return re.compile("(?:-| - )".join(map(re.escape, term.split("-"))), re.IGNORECASE)


def serialise(imap: Imap, terms: Sequence[str] = ()) -> str:
    """The text format. `parse(serialise(imap, terms), terms)` returns `imap` if terms contain no `-?`, and contain a
    hyphen only in a Query or in `terms`.

    Spaces around the hyphen separate a value that starts with a hyphen, or with which a longer one of `terms` would
    match.
    """
    tidied = [_tidy_term(term) for term in terms]
    lines = [f"Query-{pair.term}-?" for pair in imap.query]
    lines += [f"Constraint-{_joined(pair, ())}" for pair in imap.constraint]
    lines += [f"Inform-{_joined(pair, tidied)}" for pair in imap.inform]
    if imap.explicit_none:
        lines.append("Inform-None")
    return "\n".join(lines)


def _joined(pair: TermValue, terms: Iterable[str]) -> str:
    """Term and value with the simplest separator that a reader who knows `terms` can split."""
    longer = [term for term in terms if len(term) > len(pair.term)]
    joined = f"{pair.term}-{pair.value}"
    for separator in ("-", "- ", " -", " - "):
        joined = f"{pair.term}{separator}{pair.value}"
        if tidy(joined) == joined and all(_after_term(joined, term, "-") is None for term in longer):
            break
    return joined
