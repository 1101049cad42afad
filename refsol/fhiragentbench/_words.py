"""Reads clear statements in an answer: yes or no, nothing, numbers, times, entries of a list."""

from __future__ import annotations

import re
from dataclasses import dataclass

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
class Number:
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
    return all(one.text in known for one in numbers(text)) and not _NUMBER_WORD.search(text)


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


def numbers(text: str) -> list[Number]:
    """The numbers in a text, except those in dates, clock times and ordinals."""
    left = re.sub(r"\b\d{1,2}:\d{2}(?::\d{2})?\b", " ", _without_dates(text))
    alone = text.strip().strip("[]() ")
    return [
        Number(match[0], float(match[0].replace("−", "-").replace(",", "")), alone == match[0])
        for match in _NUMBER.finditer(left)
    ]


def the_number(text: str) -> Number | None:
    """The only number that a text states, ignoring round brackets. None if there are several or it is not exact."""
    outside = re.sub(r"\([^()]*\)", " ", text)
    matches = numbers(outside)
    vague = _INEXACT.search(outside) or _NUMBER_WORD.search(outside) or has_denial(outside)
    return matches[0] if len(matches) == 1 and not vague else None


def moments(text: str) -> list[Moment]:
    """The dates in a text, in the form 2131-05-04 or with the month's name."""
    return [_moment(match, text) for form in _DATES for match in form.finditer(text)]


def parts(text: str) -> list[str]:
    """The entries of a list in a text: quoted texts, lines (with or without bullets), or parts between commas."""
    if quoted := re.findall(r"""(?<!\w)(?:'([^'\n]+)'|"([^"\n]+)")(?!\w)""", text):
        return [one or other for one, other in quoted]
    lines = [re.sub(r"^\s*(?:[-*•]|\d+[.)])\s+", "", line) for line in text.splitlines()]
    pieces = lines if len(lines) > 1 else re.split(r"[,;]|\band\b", text.strip("[] ."))
    return [piece.strip() for piece in pieces if plain(piece)]


def _without_dates(text: str) -> str:
    for form in _DATES:
        text = form.sub(" ", text)
    return text


def _moment(match: re.Match[str], text: str) -> Moment:
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
