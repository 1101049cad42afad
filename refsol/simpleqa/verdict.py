"""What a judge's reply says, under the published rules and under one that loses nothing.

A rule is a pure function of the reply. `robust` knows five forms in a fixed order and reads only what the judge states
as its verdict; where that is not one label, it reads nothing, and the row is shown as unparsed rather than guessed.
The others repeat what the published runners do (observed behaviour), mistakes included.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, get_args

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
# Longer spellings first: INCORRECT holds CORRECT. A label's neighbours are no letters: `correctly` is not a label.
_NO_ATTEMPT, _WRONG = r"not[\s_-]*attempted", r"in[_-]?correct|not[\s_-]*correct"
_LABEL = re.compile(
    rf"(?<![^\W_])(?:(?P<not_attempted>{_NO_ATTEMPT})|(?P<incorrect>{_WRONG})|(?P<correct>correct))(?![^\W_])",
    re.IGNORECASE,
)
_NEGATION = re.compile(r"\b(?:not|never|no|hardly|partly|partially|\w+n['’]t)\b", re.IGNORECASE)
# In an object that is no whole JSON: cut off, or with quotes that are not JSON's, or with none. An apostrophe ends a
# value only where the object goes on after it.
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
# The value may stand on the next line; it is looked at, not consumed, for a next anchor may stand there instead.
_ANCHORED = re.compile(
    rf"^(?:[ \t*#>-]|{_QUOTE})*(?:evaluation|grade|verdict)(?:[ \t*]|{_QUOTE})*[:：](?=[\s*]*(?P<value>.*))",
    re.IGNORECASE | re.MULTILINE,
)
_BOXED = re.compile(r"\\boxed\s*\{(?:\s*\\(?:text|textbf|mathrm)\s*\{)?(?P<value>[^{}\n]*)\}")
# A whole sentence that states the verdict, so that "whether the answer is correct" is none.
_STATED = re.compile(
    r"(?:^[ \t*#>-]*|(?<=[.!?] ))(?:(?:so|thus|hence|therefore),? )?(?:the|this) (?:(?:final|given|predicted) )?"
    r"(?:answer|response|prediction|evaluation|verdict|grade) is:? "
    rf"(?P<value>(?:\*|{_QUOTE})*(?:{_NO_ATTEMPT}|{_WRONG}|correct)(?:\*|{_QUOTE})*)(?=[.!](?:\s|$)|[ \t]*$)",
    re.IGNORECASE | re.MULTILINE,
)
_DECORATION = " \t\r\n\f\v*.(),\"'`“”„‟‘’‚«»"


def read_verdict(reply: str, rule: Rule = "robust") -> str | None:
    """The label that `rule` reads in a judge's reply, or None where it reads nothing.

    `robust` gives one of `LABELS`. `husimpleqa` and `husimpleqa-v1` give the value lower-cased, whatever it says.
    The other three give A, B or C, also for an empty reply. Raises KeyError for a rule that is not in `RULES`.
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
    """Every value of a key `evaluation`, in the order of the text: of whole objects first looked at as JSON."""
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
    """Values of a key `evaluation` between two places, an object's last stretch possibly reaching over the end."""
    place = start
    while (match := _LOOSE_OBJECT.search(text, place)) and match.start() < end:
        yield match["value"]
        place = match.end()


def _evaluations(value: Any) -> Iterator[Any]:
    """The values of the key at any depth, in the order of the text; without recursion, however deep JSON may go."""
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
    """Values of lines that begin with `evaluation:`, `grade:` or `verdict:`, as far as they state a label or letter."""
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
    match = _LABEL.fullmatch(core)
    return match.lastgroup if match else LETTERS.get(core)


def _one_label(value: Any) -> str | None:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, str):
        return None
    if value.strip(_DECORATION) in LETTERS:
        return LETTERS[value.strip(_DECORATION)]
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
    text = reply.strip().removeprefix("```json").removesuffix("```")  # a plain fence stays, and fails, as published
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    label = value.get("evaluation") if isinstance(value, dict) else None
    return label.lower() if isinstance(label, str) else None


def _letter(reply: str) -> str:
    match = re.search("[ABC]", reply)
    return match[0] if match else "C"


def _strict(reply: str) -> str:
    match = re.search(r"\b[ABC]\b", reply)
    return match[0] if match else "C"


def _autorater(reply: str) -> str:
    """As SimpleQA Verified's notebook: without a capital letter, `correct` in any spelling is A."""
    match = re.search("[ABC]", reply)
    return match[0] if match else "A" if "CORRECT" in reply.upper() else "C"


_READERS: dict[Rule, Callable[[str], str | None]] = {
    "robust": _robust,
    "husimpleqa": _husimpleqa,
    "husimpleqa-v1": _husimpleqa_v1,
    "letter": _letter,
    "strict": _strict,
    "autorater": _autorater,
}
