"""Compares answers without a judge. It decides only clear cases, by the judge's seven rules.

Clear cases are yes and no, whole numbers, times, single texts and lists. None means that the case is not clear. Such a
row is not scored; the comparison never guesses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from refsol.fhiragentbench._questions import NO_ANSWER, Question
from refsol.fhiragentbench._truth import Value, read_values
from refsol.fhiragentbench._words import (
    GENDERS,
    Moment,
    Number,
    has_denial,
    is_denial,
    moments,
    numbers,
    parts,
    plain,
    polarity,
    the_number,
)
from refsol.fhiragentbench.answers import OUT_OF_TURNS, OVER_CAP, Correct, is_error, is_null
from refsol.fhiragentbench.outputs import Output
from refsol.fhiragentbench.retrieval import RuleName

_FINAL = re.compile(r"the final answer is\s*:", re.IGNORECASE)
_WHETHER = re.compile(r"(?:has|have|had|is|are|was|were|did|does|do)\b", re.IGNORECASE)
_TIME_OF_DAY = re.compile(r"\btime\b", re.IGNORECASE)
_FACTORS = (10, 100, 1000, 1_000_000, 60, 24, 7, 1440, 2.2046, 2.54, 30.4, 365)
"""Ratios between units of the same quantity."""


def decide(question: Question, output: Output, rules: RuleName = "published") -> Correct | None:
    """Decide without a judge whether a row is right. Errors and an exceeded cap are wrong, other rows are compared."""
    if is_error(output.error, rules) or (isinstance(output.answer, str) and OVER_CAP in output.answer):
        return 0
    right = compare(question, output.answer)
    return None if right is None else 1 if right else 0


def compare(question: Question, answer: Any) -> bool | None:
    """Whether an answer is right. None if only a judge can tell.

    `answer` is the whole last message. Only the text after the last `The final answer is:` counts.
    """
    text = "" if is_null(answer) else _FINAL.split(str(answer))[-1].strip().strip("\"'`* ")
    values = [] if question.judged_answer == NO_ANSWER else read_values(question.judged_answer)
    if values is None:
        return None
    nothing = values in ([], [None])
    if not text or text.startswith(OUT_OF_TURNS):
        return None if nothing else False
    if nothing:
        return _nothing(question, text)
    if plain(text) == plain(question.true_answer):
        return True
    if asks_whether(question) and values in ([0.0], [1.0]):
        return _whether(question, text, is_true=values == [1.0])
    if is_denial(text, question.question):
        named = any(plain(_written(value)) in plain(text) for value in values)
        return None if named or values == [0.0] else False
    return _one(question, values[0], text) if len(values) == 1 else _list(values, text)


def asks_whether(question: Question) -> bool:
    """Whether a question asks for yes or no: by its template, or by its first word if it has no template."""
    if question.template:
        return question.template.startswith(("Has_verb", "Is "))
    return _WHETHER.match(question.question) is not None


def _nothing(question: Question, text: str) -> bool | None:
    """Compare with the true answer "nothing": right are a denial, `no` to a yes-or-no question, and the number 0."""
    if is_denial(text, question.question):
        return True
    if asks_whether(question):
        stated = polarity(text)
        return None if stated is None else not stated
    bare: list[Number | Moment] = [*numbers(text), *moments(text)]
    if len(bare) != 1 or plain(text) != plain(bare[0].text):
        return None
    return isinstance(bare[0], Number) and bare[0].value == 0


def _whether(question: Question, text: str, *, is_true: bool) -> bool | None:
    stated = polarity(text)
    if stated is not None:
        return stated == is_true
    return False if is_true and is_denial(text, question.question) else None


def _one(question: Question, value: Value, text: str) -> bool | None:
    written = _written(value)
    if (dates := moments(written)) and dates[0].text == written:
        return _moment(question, dates[0], text)
    try:
        number = float(written)
    except ValueError:
        return _text(written, text)
    return _number(question, number, text)


def _number(question: Question, value: float, text: str) -> bool | None:
    """Compare numbers, rounded to whole ones, if the answer states exactly one number. Units are ignored."""
    stated = the_number(text)
    if stated is None or (not stated.is_alone and stated.text in question.question):
        return None
    same = _same_number(value, stated.value)
    if same or stated.is_alone:
        return same
    unclear = abs(stated.value) == abs(value) or _may_be_other_unit(value, stated.value) or 1900 <= stated.value <= 2250
    return None if unclear else same


def _same_number(value: float, other: float) -> bool | None:
    """Whether two numbers are equal when rounded. None if that depends on how a half is rounded."""
    if value == other:
        return True
    if abs(value) % 1 == 0.5 or abs(other) % 1 == 0.5:
        return None if abs(value - other) <= 1 else False
    return round(value) == round(other)


def _may_be_other_unit(value: float, other: float) -> bool:
    if value == 0 or other == 0:
        return False
    ratio = abs(value / other)
    return any(0.95 < ratio * factor < 1.05 or 0.95 < ratio / factor < 1.05 for factor in _FACTORS)


def _moment(question: Question, true: Moment, text: str) -> bool | None:
    """Compare times: the day must be the same, and the clock time, if the answer has one, within a minute."""
    dates = moments(text)
    if len({one.day for one in dates}) != 1 or len({one.minute for one in dates}) != 1 or has_denial(text):
        return None
    stated = dates[0]
    if stated.day != true.day:
        return None if stated.has_zone else False
    if stated.minute is None or true.minute is None:
        return None if true.minute is not None and _TIME_OF_DAY.search(question.question) else True
    return True if abs(stated.minute - true.minute) <= 1 else None


def _text(value: str, text: str) -> bool | None:
    """Compare one text, ignoring case and punctuation. A gender may also be a word, such as "male"."""
    if plain(text) == plain(value):
        return True
    if value.upper() not in GENDERS:
        return None
    words = set(plain(text).split())
    named = [letter for letter, names in GENDERS.items() if names & words or plain(text) == letter.lower()]
    if len(named) == 1 and not has_denial(text):
        return named == [value.upper()]
    return False if plain(text) == "unknown" else None


def _list(values: Sequence[Value], text: str) -> bool | None:
    """Compare several values. All of them and no other are right; only some of them and no other are wrong."""
    if all(isinstance(value, float) for value in values):
        amounts = numbers(text)
        if " ".join(one.text for one in amounts) != " ".join(re.sub(r"[\[\],;]", " ", text).split()):
            return None
        return _same_amounts([float(value or 0) for value in values], [one.value for one in amounts])
    true = {plain(_written(value)) for value in values}
    stated = {plain(part) for part in parts(text)}
    return True if stated == true else False if stated and stated < true else None


def _same_amounts(true: Sequence[float], stated: Sequence[float]) -> bool | None:
    """Whether two lists have the same whole numbers, in any order."""
    if len(true) != len(stated):
        return False if len(stated) < len(true) else None
    pairs = [_same_number(one, other) for one, other in zip(sorted(true), sorted(stated), strict=True)]
    return None if None in pairs else all(pairs)


def _written(value: Value) -> str:
    return str(int(value)) if isinstance(value, float) and value % 1 == 0 else str(value)
