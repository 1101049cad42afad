"""Read a judge's reply, under the published rules or under a stricter one that never guesses.

A rule is a pure function of the reply. `robust` tries five formats in a fixed order and reads only what the judge
states as its verdict. If that is not exactly one label, it reads nothing, and the row is shown as unparsed. The other
rules repeat the observed behaviour of the published runners, including their mistakes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, get_args

from refsol.json_values import as_object, json_value
from refsol.simpleqa.replies import json_stretches, strip_reasoning

Rule = Literal["robust", "husimpleqa", "husimpleqa-v1", "letter", "strict", "autorater"]
RULES: tuple[Rule, ...] = get_args(Rule)

Label = Literal["correct", "incorrect", "not_attempted"]
CORRECT: Final = "correct"
INCORRECT: Final = "incorrect"
NOT_ATTEMPTED: Final = "not_attempted"
LABELS: tuple[Label, ...] = get_args(Label)
LETTERS: dict[str, Label] = {"A": CORRECT, "B": INCORRECT, "C": NOT_ATTEMPTED}

_QUOTE = "[\"'`“”„‟‘’‚«»]"
# Longer spellings first: INCORRECT contains CORRECT. No letters are next to a label: `correctly` is not a label.
_NO_ATTEMPT, _WRONG = r"not[\s_-]*attempted", r"in[_-]?correct|not[\s_-]*correct"
_LABEL = re.compile(
    rf"(?<![^\W_])(?:(?P<not_attempted>{_NO_ATTEMPT})|(?P<incorrect>{_WRONG})|(?P<correct>correct))(?![^\W_])",
    re.IGNORECASE,
)
_NEGATION = re.compile(r"\b(?:not|never|no|hardly|partly|partially|\w+n['’]t)\b", re.IGNORECASE)
# For objects that are not valid JSON: cut off, with other quotes, or without quotes. An apostrophe ends a value only if
# the object continues after it.
_LOOSE_VALUE = "|".join(
    (
        r"\[[^\]}\n]*",
        r'["“”„‟`«»][^"“”„‟`«»\n]*',
        r"['‘’‚](?:(?!['‘’]\s*[,}\]])[^\n])*",
        r"[^,}\n]*",
    )
)
_LOOSE_OBJECT = re.compile(
    rf"[{{,]\s*(?:{_QUOTE}\s*)?evaluation\s*(?:{_QUOTE}\s*)?:\s*(?P<value>{_LOOSE_VALUE})", re.IGNORECASE
)
# The value can be on the next line. It is matched by lookahead, not consumed: the next anchor can be there instead.
_ANCHORED = re.compile(
    rf"^(?:[ \t*#>-]|{_QUOTE})*(?:evaluation|grade|verdict)(?:[ \t*]|{_QUOTE})*[:：](?=[\s*]*(?P<value>.*))",
    re.IGNORECASE | re.MULTILINE,
)
_BOXED = re.compile(r"\\boxed\s*\{(?:\s*\\(?:text|textbf|mathrm)\s*\{)?(?P<value>[^{}\n]*)\}")
# A whole sentence that states the verdict. "whether the answer is correct" does not match.
_STATED = re.compile(
    r"(?:^[ \t*#>-]*|(?<=[.!?] ))(?:(?:so|thus|hence|therefore),? )?(?:the|this) (?:(?:final|given|predicted) )?"
    r"(?:answer|response|prediction|evaluation|verdict|grade) is:? "
    rf"(?P<value>(?:\*|{_QUOTE})*(?:{_NO_ATTEMPT}|{_WRONG}|correct)(?:\*|{_QUOTE})*)(?=[.!](?:\s|$)|[ \t]*$)",
    re.IGNORECASE | re.MULTILINE,
)
# A letter and a word, with punctuation between them: `B: INCORRECT`, `(B) INCORRECT`, `INCORRECT (B)`.
_BETWEEN = r"[\s*:：.,=()\[\]\"'`“”–—-]+"
_LETTER_AND_WORD = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (rf"(?P<letter>[ABC]){_BETWEEN}(?P<word>\w.*)", rf"(?P<word>\w.*?){_BETWEEN}(?P<letter>[ABC])")
)
_LONGEST_PAIR = 40
"""Characters of a letter with its word. Longer texts say more."""
_DECORATION = " \t\r\n\f\v*.(),\"'`“”„‟‘’‚«»"


def read_verdict(reply: str, rule: Rule = "robust") -> str | None:
    """The label that `rule` reads in a judge's reply, or None if it reads nothing.

    `robust` returns one of `LABELS`. `husimpleqa` and `husimpleqa-v1` return the value in lower case, whatever it is.
    The other three return A, B or C, including for an empty reply. Raises KeyError for a rule that is not in `RULES`.
    """
    return _READERS[rule](reply)


def _robust(reply: str) -> str | None:
    text = strip_reasoning(reply)
    for form in (_in_objects, _anchored, _boxed, _stated):
        values = list(form(text))
        if values:
            return _one_label(values[-1])
    return _bare(text)


def _in_objects(text: str) -> Iterator[Any]:
    """Every value of a key `evaluation`, in text order. Complete objects are parsed as JSON first."""
    if "evaluation" not in text.lower():
        return
    covered = 0
    for stretch in json_stretches(text):
        yield from _loose(text, covered, stretch.start)
        if stretch.value is not None:
            yield from _evaluations(stretch.value)
        covered = stretch.end
    yield from _loose(text, covered, len(text))


def _loose(text: str, start: int, end: int) -> Iterator[str]:
    """Values of a key `evaluation` between two places. The last match in an object may extend past `end`."""
    place = start
    while (match := _LOOSE_OBJECT.search(text, place)) and match.start() < end:
        yield match["value"]
        place = match.end()


def _evaluations(value: Any) -> Iterator[Any]:
    """The values of the key at any depth, in text order. Without recursion, because JSON can be very deep."""
    pending: list[tuple[str, Any]] = [("", value)]
    while pending:
        key, node = pending.pop()
        if key.strip().lower() == "evaluation":
            yield node
        if isinstance(node, dict):
            pending.extend(reversed(node.items()))
        elif isinstance(node, list):
            pending.extend(("", inner) for inner in reversed(node))


def _anchored(text: str) -> Iterator[str]:
    """Values of lines that start with `evaluation:`, `grade:` or `verdict:`, if they are a label or letter."""
    for match in _ANCHORED.finditer(text):
        value = match["value"]
        if _LABEL.search(value) or value.strip(_DECORATION) in LETTERS:
            yield value


def _boxed(text: str) -> Iterator[str]:
    """Labels and letters in `\\boxed{…}`."""
    values = (match["value"].replace("\\_", "_") for match in _BOXED.finditer(text))
    yield from (value for value in values if _bare(value))


def _stated(text: str) -> Iterator[str]:
    """Labels in sentences such as `The answer is CORRECT.`"""
    yield from (match["value"] for match in _STATED.finditer(text))


def _bare(text: str) -> str | None:
    core = text.strip(_DECORATION)
    if (match := _LABEL.fullmatch(core)) is not None:
        return match.lastgroup
    if (stated := _letter_and_word(core)) is not None:
        return stated[0] if stated[0] == stated[1] else None
    return LETTERS.get(core)


def _letter_and_word(core: str) -> tuple[str, str | None] | None:
    """The labels of the letter and of the word in `B: INCORRECT` or `INCORRECT (B)`; None for any other text."""
    if len(core) > _LONGEST_PAIR:
        return None
    for pattern in _LETTER_AND_WORD:
        match = pattern.fullmatch(core)
        word = _LABEL.fullmatch(match["word"].strip(_DECORATION)) if match else None
        if match and word:
            return LETTERS[match["letter"]], word.lastgroup
    return None


def _one_label(value: Any) -> str | None:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, str):
        return None
    core = value.strip(_DECORATION)
    if core in LETTERS or _letter_and_word(core) is not None:  # a letter with another letter's word is no label
        return _bare(value)
    matches = list(_LABEL.finditer(value))
    if len({match.lastgroup for match in matches}) != 1:
        return None
    label = matches[0].lastgroup
    if label == CORRECT and _NEGATION.search(value, 0, matches[0].start()):
        return None
    return label


def _husimpleqa(reply: str) -> str | None:
    match = re.search(r'"evaluation": "(.*?)"', reply)
    return match[1].lower() if match else None


def _husimpleqa_v1(reply: str) -> str | None:
    # As published: a fence without `json` is not removed, so parsing fails.
    text = reply.strip().removeprefix("```json").removesuffix("```")
    label = as_object(json_value(text)).get("evaluation")
    return label.lower() if isinstance(label, str) else None


def _letter(reply: str) -> str:
    match = re.search("[ABC]", reply)
    return match[0] if match else "C"


def _strict(reply: str) -> str:
    match = re.search(r"\b[ABC]\b", reply)
    return match[0] if match else "C"


def _autorater(reply: str) -> str:
    """As SimpleQA Verified's notebook: a reply without a capital letter is A if it contains `correct`, in any case."""
    match = re.search("[ABC]", reply)
    if match:
        return match[0]
    return "A" if "CORRECT" in reply.upper() else "C"


_READERS: dict[Rule, Callable[[str], str | None]] = {
    "robust": _robust,
    "husimpleqa": _husimpleqa,
    "husimpleqa-v1": _husimpleqa_v1,
    "letter": _letter,
    "strict": _strict,
    "autorater": _autorater,
}
