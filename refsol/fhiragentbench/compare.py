"""Compares answers without a judge. It decides only clear cases, by the judge's seven rules.

Clear cases are yes and no, whole numbers, times, single texts and lists. None means that the case is not clear. Such a
row is not scored; the comparison never guesses. True answers have the form of a printed numpy table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from refsol.fhiragentbench._questions import NO_ANSWER, Question
from refsol.fhiragentbench.answers import OUT_OF_TURNS, OVER_CAP, Correct, is_error, is_no_answer, is_null
from refsol.fhiragentbench.outputs import Output
from refsol.fhiragentbench.retrieval import RuleName
from refsol.python_text import python_value

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)
    |(?P<nothing>None|nan|NaT)
    |(?P<bracket>[\[\]])
    )""",
    re.VERBOSE,
)

Value = str | float | None


def read_values(text: str) -> list[Value] | None:
    """The values of a text such as `[[1]]`, `[['M']]`, `[]` or `[[None]]`, with one row per line. None for other forms.

    A quoted number (`[['400']]`) is text.
    """
    values: list[Value] = []
    place, depth, stripped = 0, 0, text.rstrip()
    if not stripped.startswith("["):
        return None
    while place < len(stripped):
        token = _TOKEN.match(stripped, place)
        if token is None or (place > 0 and depth == 0):
            return None
        place = token.end()
        if token["bracket"]:
            depth += 1 if token["bracket"] == "[" else -1
        elif token["text"]:
            values.append(_unquoted(token["text"]))
        else:
            values.append(None if token["nothing"] else float(token["number"]))
    return values if depth == 0 else None


def _unquoted(text: str) -> str:
    try:
        return str(python_value(text))
    except (ValueError, SyntaxError):
        return text[1:-1]


GENDERS = {"M": {"male", "man"}, "F": {"female", "woman"}}
"""Words for the record's M and F."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = rf"(?:{'|'.join(_MONTHS)})[a-z]*\.?"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_DATES = (
    re.compile(r"(?<![\d-])(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})(?!\d)"),
    re.compile(rf"\b(?P<day>{_DAY})\s+(?P<month>{_MONTH}),?\s+(?P<year>\d{{4}})\b", re.IGNORECASE),
    re.compile(rf"\b(?P<month>{_MONTH})\s+(?P<day>{_DAY}),?\s+(?P<year>\d{{4}})\b", re.IGNORECASE),
)
_CLOCK = re.compile(
    r"(?:T|[,\s]+(?:at\s+)?)(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::\d{2}(?:\.\d+)?)?"
    r"\s*(?P<half>[ap]\.?m\b\.?)?(?P<zone>Z\b|[+-]\d{2}:?\d{2})?",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"(?<![\w.,/:])[-−]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?(?:e[-+]?\d+)?(?!(?:st|nd|rd|th)\b|[\d/:]|[.,]\d)",
    re.IGNORECASE,
)
_NUMBER_WORD = re.compile(
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|once|twice|hundred|thousand|dozen|half)\b",
    re.IGNORECASE,
)
_INEXACT = re.compile(r"[<>≤≥~]|\b(?:less|more|fewer|greater|least|most|over|under|between|about|or)\b", re.IGNORECASE)
_DENIAL_WORD = re.compile(r"\b(?:no|not|none|never|cannot|without|unable|nothing|\w+n t)\b")
_NOTHING = {
    "none",
    "nothing",
    "null",
    "n a",
    "no answer",
    "no data",
    "no data found",
    "no information",
    "no record",
    "no records",
    "no records found",
    "no results",
    "none found",
    "not available",
    "not found",
    "not recorded",
    "nothing found",
    "nothing was found",
}
_FOUND = r"(?:found|recorded|available|documented|on record)"
_DENIALS = re.compile(
    "^(?:"
    r"there (?:is|are|was|were|has been|have been) no\b(?! (?:doubt|question))"
    r"|(?:i )?(?:cannot|can t|could not|couldn t|did not|am unable to|was unable to|unable to) (?:find|locate)\b"
    rf"|no (?:\w+ ){{1,9}}{_FOUND}\b"
    r"|no (?:\w+ ){0,6}(?:records?|results?|data|entries|measurements?|prescriptions?)$"
    r"|none (?:was|were) found\b"
    r"|(?:the )?patient (?:\d+ )?(?:does not have|has no|had no|did not have) "
    ")"
)
_TURN = re.compile(r"\b(?:but|however|although|though|except|only|other|apart|instead|unless|until|before|after)\b")


@dataclass(frozen=True, slots=True)
class StatedNumber:
    """A number in a text, as written and as a value. `is_alone`: the text has only this number."""

    text: str
    value: float
    is_alone: bool


@dataclass(frozen=True, slots=True)
class Moment:
    """A date in a text, as written. If a clock time follows: the minute of the day, and whether it has a zone."""

    text: str
    day: tuple[int, int, int]
    minute: int | None = None
    has_zone: bool = False


def plain(text: str) -> str:
    """The text in lower case without punctuation, with single spaces. Decimal points and minus signs are kept."""
    cleaned = re.sub(r"(?<!\d)\.|\.(?!\d)|[^\w.\s-]|_", " ", text.lower())
    return " ".join(re.sub(r"-(?!\d)|(?<=\w)-", " ", cleaned).split())


def is_denial(text: str, question: str) -> bool:
    """Whether a text says only that there is nothing.

    It must be one clause, without a word such as "but", and without numbers except those of the question.
    """
    words = plain(text)
    if words in _NOTHING:
        return True
    if _DENIALS.match(words) is None or _TURN.search(words) or re.search(r"[,;:\n]|\.\s", text.strip().rstrip(".")):
        return False
    known = set(re.findall(r"\d+", question))
    return all(number.text in known for number in numbers(text)) and not _NUMBER_WORD.search(text)


def has_denial(text: str) -> bool:
    """Whether a text has a word of denial, such as "not"."""
    return _DENIAL_WORD.search(plain(text)) is not None


def polarity(text: str) -> bool | None:
    """Whether the text says yes or no: it begins with it and does not contradict it later. None if it is unclear."""
    words = plain(text)
    if words in ("yes", "true", "1"):
        return True
    if words in ("no", "false", "0"):
        return False
    rest = words.partition(" ")[2]
    if re.match(r"yes\W*[.,;:!\n-]", text, re.IGNORECASE):
        return None if has_denial(rest) or _TURN.search(rest) else True
    if re.match(r"no\W*[.,;:!\n-]", text, re.IGNORECASE):
        return None if re.search(r"\byes\b", rest) or _TURN.search(rest) else False
    return None


def numbers(text: str) -> list[StatedNumber]:
    """The numbers in a text, except those in dates, clock times and ordinals."""
    left = re.sub(r"\b\d{1,2}:\d{2}(?::\d{2})?\b", " ", _without_dates(text))
    alone = text.strip().strip("[]() ")
    return [
        StatedNumber(match[0], float(match[0].replace("−", "-").replace(",", "")), alone == match[0])
        for match in _NUMBER.finditer(left)
    ]


def the_number(text: str) -> StatedNumber | None:
    """The only number that a text states, ignoring round brackets. None if there are several or it is not exact."""
    outside = re.sub(r"\([^()]*\)", " ", text)
    matches = numbers(outside)
    vague = _INEXACT.search(outside) or _NUMBER_WORD.search(outside) or has_denial(outside)
    return matches[0] if len(matches) == 1 and not vague else None


def moments(text: str) -> list[Moment]:
    """The dates in a text, in the form 2131-05-04 or with the month's name."""
    return [_stated_moment(match, text) for form in _DATES for match in form.finditer(text)]


def parts(text: str) -> list[str]:
    """The entries of a list in a text: quoted texts, lines (with or without bullets), or parts between commas."""
    if quoted := re.findall(r"""(?<!\w)(?:'([^'\n]+)'|"([^"\n]+)")(?!\w)""", text):
        return [single or double for single, double in quoted]
    lines = [re.sub(r"^\s*(?:[-*•]|\d+[.)])\s+", "", line) for line in text.splitlines()]
    pieces = lines if len(lines) > 1 else re.split(r"[,;]|\band\b", text.strip("[] ."))
    return [piece.strip() for piece in pieces if plain(piece)]


def _without_dates(text: str) -> str:
    for form in _DATES:
        text = form.sub(" ", text)
    return text


def _stated_moment(match: re.Match[str], text: str) -> Moment:
    name = match["month"][:3].lower()
    month = _MONTHS.index(name) + 1 if name in _MONTHS else int(match["month"])
    day = (int(match["year"]), month, int(re.sub(r"\D", "", match["day"])))
    clock = _CLOCK.match(text, match.end())
    if clock is None:
        return Moment(match[0], day)
    hour = int(clock["hour"])
    if clock["half"]:
        hour = hour % 12 + (12 if clock["half"][0] in "pP" else 0)
    return Moment(match[0] + clock[0], day, 60 * hour + int(clock["minute"]), clock["zone"] is not None)


_FINAL = re.compile(r"the final answer is\s*:", re.IGNORECASE)
_WHETHER = re.compile(r"(?:has|have|had|is|are|was|were|did|does|do)\b", re.IGNORECASE)
_TIME_OF_DAY = re.compile(r"\btime\b", re.IGNORECASE)
_FACTORS = (10, 100, 1000, 1_000_000, 60, 24, 7, 1440, 2.2046, 2.54, 30.4, 365)
"""Ratios between units of the same quantity."""


NOT_IN_RECORD = "not in the record"
"""The answer to a question of two twins if the record does not contain the answer."""


def decide(question: Question, output: Output, rules: RuleName = "published") -> Correct | None:
    """Decide without a judge whether a row is right. Errors and an exceeded cap are wrong, other rows are compared."""
    if is_error(output.error, rules) or (isinstance(output.answer, str) and OVER_CAP in output.answer):
        return 0
    if (settled := of_twin(question, output)) is not None:
        return settled
    right = compare(question, output.answer)
    if right is None:
        return None
    return 1 if right else 0


def of_twin(question: Question, output: Output, normalized: str | None = None) -> Correct | None:
    """Whether the answer to one of two twins is right, if that follows from whether it refuses. None otherwise.

    Without the answer in the record, only a refusal is right, and a refusal is wrong otherwise.
    """
    if not question.twin:
        return None
    refused = refuses(question, output, normalized)
    if question.true_ids:
        return 0 if refused else None
    return 1 if refused else 0


def refuses(question: Question, output: Output, normalized: str | None = None) -> bool:
    """Whether an answer says only that the record does not contain the answer.

    `normalized` is the result of the judge's normalizing call, if there was one.
    """
    text = _final_text(output.answer)
    if not text or text.startswith(OUT_OF_TURNS) or is_error(output.error):
        return False
    is_denied = plain(text) == NOT_IN_RECORD or is_denial(text, question.question)
    return is_denied or is_no_answer(normalized or "")


def _final_text(answer: Any) -> str:
    return "" if is_null(answer) else _FINAL.split(str(answer))[-1].strip().strip("\"'`* ")


def compare(question: Question, answer: Any) -> bool | None:
    """Whether an answer is right. None if only a judge can tell.

    `answer` is the whole last message. Only the text after the last `The final answer is:` counts.
    """
    text = _final_text(answer)
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
    bare: list[StatedNumber | Moment] = [*numbers(text), *moments(text)]
    if len(bare) != 1 or plain(text) != plain(bare[0].text):
        return None
    return isinstance(bare[0], StatedNumber) and bare[0].value == 0


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


def _same_number(value: float, stated: float) -> bool | None:
    """Whether two numbers are equal when rounded. None if that depends on how a half is rounded."""
    if value == stated:
        return True
    if abs(value) % 1 == 0.5 or abs(stated) % 1 == 0.5:
        return None if abs(value - stated) <= 1 else False
    return round(value) == round(stated)


def _may_be_other_unit(value: float, stated: float) -> bool:
    if value == 0 or stated == 0:
        return False
    ratio = abs(value / stated)
    return any(0.95 < ratio * factor < 1.05 or 0.95 < ratio / factor < 1.05 for factor in _FACTORS)


def _moment(question: Question, true: Moment, text: str) -> bool | None:
    """Compare times: the day must be the same, and the clock time, if the answer has one, within a minute."""
    dates = moments(text)
    if len({date.day for date in dates}) != 1 or len({date.minute for date in dates}) != 1 or has_denial(text):
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
        if " ".join(amount.text for amount in amounts) != " ".join(re.sub(r"[\[\],;]", " ", text).split()):
            return None
        return _same_amounts([float(value or 0) for value in values], [amount.value for amount in amounts])
    true = {plain(_written(value)) for value in values}
    stated = {plain(part) for part in parts(text)}
    if stated == true:
        return True
    return False if stated and stated < true else None


def _same_amounts(true: Sequence[float], stated: Sequence[float]) -> bool | None:
    """Whether two lists have the same whole numbers, in any order."""
    if len(true) != len(stated):
        return False if len(stated) < len(true) else None
    pairs = [
        _same_number(true_number, stated_number)
        for true_number, stated_number in zip(sorted(true), sorted(stated), strict=True)
    ]
    return None if None in pairs else all(pairs)


def _written(value: Value) -> str:
    return str(int(value)) if isinstance(value, float) and value % 1 == 0 else str(value)
