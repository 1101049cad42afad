"""Why an item is wrong, without using a model: one kind of a fixed list, from the verdict and, if stored, the
transcript.

The deeper cause comes first: how the episode ended, then whether the agent saw the deciding reading, then its orders,
then its answer. A results file contains only the posts, not the reads. There, a reading counts as missed if the answer
says that there is none; another wrong answer is `wrong-form` or `wrong-value`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from refsol._moments import shown_time
from refsol.clinical.known import Missed
from refsol.clinical.task_type import Ruled
from refsol.failures import Failure, failed_orders, failed_protocol, named_posts, why
from refsol.history import HistoryMessage
from refsol.json_values import json_value
from refsol.medagentbench.recorded import NOT_THE_AGENT
from refsol.verdict import Because, Check, Fact, Verdict, show

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\d.]*\d)")


def failure_of(
    verdict: Verdict,
    answer: Any,
    status: str | None = None,
    transcript: Sequence[HistoryMessage] = (),
    history: Sequence[HistoryMessage] = (),
    missed: Missed | None = None,
) -> Failure | None:
    """The failure of an item. None if the item is right or its own format prevents grading.

    `status` is how the episode ended, if known. `transcript` contains all messages, the task's prompt first. `history`
    contains the POSTs and their replies, if only these are known. `missed` is what the agent had not read.
    """
    if verdict.correct is None:
        return Failure("infrastructure", verdict.reason) if status in NOT_THE_AGENT else None
    if verdict.correct:
        return None
    failed = {check.name: check for check in verdict.checks if not check.passed}
    if "data" in failed or verdict.because is None:
        return Failure("data", verdict.reason)
    return (
        failed_protocol(failed, status, transcript)
        or _on_unread_page(verdict, missed)
        or _missed(verdict, verdict.because, transcript, not_due="no POST" in failed)
        or _swapped(verdict, failed)
        or failed_orders(verdict, failed, transcript or history)
        or _answer(verdict, answer, read=bool(transcript))
    )


def _on_unread_page(verdict: Verdict, missed: Missed | None) -> Failure | None:
    if missed is None or not missed.page:
        return None
    return Failure("page-not-opened", f"{missed.words}{why(verdict)}")


def _swapped(verdict: Verdict, failed: Mapping[str, Check]) -> Failure | None:
    """Two orders of different types in the wrong order."""
    types = {name: check for name, check in failed.items() if name.endswith(" resourceType")}
    if len(types) != 2:
        return None
    first, second = types.values()
    if (first.actual, second.actual) != (second.expected, first.expected):
        return None
    due = " before ".join(json.loads(check.expected) for check in (first, second))
    return Failure("order-wrong", f"the two orders are swapped; {due} is due" + why(verdict), next(iter(failed)))


def _missed(
    verdict: Verdict, because: Because, transcript: Sequence[HistoryMessage], *, not_due: bool
) -> Failure | None:
    """If the transcript shows it: the first deciding fact that no observation contains. `not_due`: an order was sent,
    and none was due.
    """
    first = next((place for place, message in enumerate(transcript) if message.role == "agent"), len(transcript))
    observed = [message.content for message in transcript[first:] if message.role == "user"]
    actions = [message.content for message in transcript[first:] if message.role == "agent"]
    if not actions:
        return None
    unseen = [fact for fact in because.facts if not _seen(fact, observed, actions)]
    if not unseen:
        return None
    several = f" (and {len(unseen) - 1} more of {len(because.facts)})" if len(unseen) > 1 else ""
    order = f", and sent {named_posts(transcript)}, which was not due" if not_due else ""
    return Failure("reading-missed", f"never read {_words(unseen[0], verdict)}{several}{order}; {because.sentence}")


def _seen(fact: Fact, observed: Sequence[str], actions: Sequence[str]) -> bool:
    if fact.unit is not None:  # a laboratory result
        if fact.time is None:
            return any("Observation" in action and fact.name in action for action in _reads(actions))
        return any(fact.time in text and f'"{fact.name}"' in text for text in observed)
    if fact.name == "birthDate":
        return any(str(fact.value) in text for text in observed)
    if fact.name == "sol":
        words = [word for word in _texts(str(fact.value)) if any(word in text for text in observed)]
        return bool(words) or any("Patient" in action for action in _reads(actions))
    return True


def _reads(actions: Sequence[str]) -> list[str]:
    return [action for action in actions if "GET" in action]


def _texts(value: str) -> Iterator[str]:
    """The texts in a JSON list, or the text itself."""
    try:
        read = json.loads(value)
    except ValueError:
        read = value
    yield from (text for text in (read if isinstance(read, list) else [read]) if isinstance(text, str))


def _words(fact: Fact, verdict: Verdict) -> str:
    if fact.name == "birthDate":
        return "the birth date"
    if fact.name == "sol":
        return "the patient"
    tests = verdict.basis.chart.searched if isinstance(verdict.basis, Ruled) else ()
    name = next(
        (searched.name for searched in tests if searched.lab is not None and searched.lab.code == fact.name), fact.name
    )
    return f"the {name} of {shown_time(fact.time) if fact.time else 'the patient'}"


def _answer(verdict: Verdict, answer: Any, *, read: bool) -> Failure:
    """A failure of the answer. `read`: the transcript shows that the deciding data was read."""
    values = [accepted for accepted in verdict.accepted if accepted]
    is_mean = any(check.name == "answer" and "±" in check.expected for check in verdict.checks)
    tolerance = 0.1 if is_mean else 1e-9
    reply = " ".join(str(answer).split())[:200].encode("utf-8", "backslashreplace").decode()
    if any(_same_values(answer, value, tolerance) for value in values):
        return Failure("wrong-form", f"the value of {show(values[0])}, written as {reply}")
    form = "" if _is_list(answer) else ", which is not a JSON list either"
    if _numbers(_leaves(answer)) == [-1.0]:
        return Failure("wrong-value" if read else "reading-missed", f"said that there is none{form}{why(verdict)}")
    return Failure("wrong-value", f"answered {reply}{form}{why(verdict)}")


def _is_list(answer: Any) -> bool:
    try:
        return isinstance(json.loads(answer), list)
    except (TypeError, ValueError, RecursionError):
        return False


def _same_values(answer: Any, accepted: Any, tolerance: float) -> bool:
    """Whether the answer, in any format, contains exactly the expected numbers and texts, and no other time."""
    leaves, right = _leaves(answer), _leaves(json.dumps(accepted))
    numbers, right_numbers = _numbers(leaves), _numbers(right)
    if len(numbers) != len(right_numbers):
        return False
    if not all(
        abs(number - right_number) <= tolerance for number, right_number in zip(numbers, right_numbers, strict=True)
    ):
        return False
    moments, right_moments = _moments(leaves), _moments(right)
    if right_moments and moments and moments != right_moments:
        return False
    text = " ".join(map(str, leaves)).casefold()
    words = [word for word in right if isinstance(word, str) and not _DATE.search(word)]
    return bool(right_numbers or words) and all(word.casefold() in text for word in words)


def _leaves(answer: Any) -> list[Any]:
    """The numbers and texts in an answer, in order: its JSON's, or the text itself if it is not JSON."""
    leaves, waiting = [], [json_value(answer, answer) if isinstance(answer, str) else answer]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            waiting.extend(reversed(list(value.values()) if isinstance(value, dict) else value))
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            leaves.append(value)
    return leaves


def _numbers(leaves: Sequence[Any]) -> list[float]:
    numbers: list[float] = []
    for leaf in leaves:
        parts = _NUMBER.findall(_DATE.sub(" ", leaf)) if isinstance(leaf, str) else [leaf]
        for part in parts:
            try:
                numbers.append(float(part))
            except (ValueError, OverflowError):
                continue
    return sorted(dict.fromkeys(numbers))


def _moments(leaves: Sequence[Any]) -> set[str]:
    """The times in the texts, to the minute; in UTC if a zone is stated."""
    moments = set()
    for leaf in leaves:
        for text in _DATE.findall(leaf) if isinstance(leaf, str) else ():
            try:
                time = datetime.fromisoformat(text)
            except ValueError:
                continue
            utc = time.astimezone(UTC) if time.tzinfo else time
            moments.add(utc.isoformat()[:16])
    return moments
