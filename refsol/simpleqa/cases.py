"""Replies with known labels, to measure how reliable a judge is.

The published cases are facts stated in the judge prompts of SimpleQA and HuSimpleQA: their examples, how exact a number
must be, how a name may be spelled. The other cases are this project's: twenty facts with ten replies each.

One kind is disputed: a reply that contains a part of the answer. HuSimpleQA's criteria call it NOT_ATTEMPTED (it
contradicts nothing), but its fifth example says INCORRECT. SimpleQA's prompt calls one name of two INCORRECT. So the
label of a partial list depends on the prompt that the judge gets.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from refsol.simpleqa.verdict import INCORRECT, NOT_ATTEMPTED, Label

Side = Literal["bundled", "published", "other"]
"""Whose criteria the judge prompt states."""
PARTIAL = "a part of the answer"


@dataclass(frozen=True, slots=True)
class JudgeCase:
    """A reply to judge and its label."""

    id: str
    kind: str
    question: str
    gold: str
    reply: str
    label: Label

    def accepted(self, side: Side) -> tuple[Label, ...]:
        """The correct labels. For a partial list they depend on whose criteria the judge prompt states."""
        if self.kind != PARTIAL:
            return (self.label,)
        sides: dict[Side, tuple[Label, ...]] = {"bundled": (NOT_ATTEMPTED,), "published": (INCORRECT,)}
        return sides.get(side, (INCORRECT, NOT_ATTEMPTED))


_FILE = Path(__file__).with_name("cases.toml")


def judge_cases() -> list[JudgeCase]:
    """All cases: the published ones first, then this project's 200."""
    tables = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return [*_published(tables), *_own(tables)]


def _published(tables: Mapping[str, Any]) -> Iterator[JudgeCase]:
    replies = ((case, reply) for case in tables["published"] for reply in case["replies"])
    for number, (case, reply) in enumerate(replies, 1):
        yield JudgeCase(f"published-{number:02}", case["kind"], case["question"], case["gold"], reply, case["label"])


def _own(tables: Mapping[str, Any]) -> Iterator[JudgeCase]:
    for number, (question, gold, wrong) in enumerate(tables["facts"], 1):
        for way, template in enumerate(tables["ways"], 1):
            reply = template["reply"].format(gold=gold, wrong=wrong, upper=gold.upper())
            yield JudgeCase(f"own-{number:02}-{way:02}", template["kind"], question, gold, reply, template["label"])
