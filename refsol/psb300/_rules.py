"""The differences between the two rule sets. They share the rules in `_procedures.py`, `_drugs.py`, `_readings.py`.

`official` does what the published grader does; its verdicts on recorded items are equal. `fair` matches codes and whole
words, uses the context's now and the time at which a reading was taken, and requires what the instruction requires.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from refsol.errors import InputError

RuleName = Literal["official", "fair"]


@dataclass(frozen=True, slots=True)
class RuleSet:
    """One rule set. The words of a field are alternatives. They are in lower case if the searched text is."""

    name: RuleName
    fair: bool
    flu: tuple[str, ...] = ("flu",)
    covid: tuple[str, ...] = ("covid",)
    covid_vaccine: tuple[str, ...] = ("covid-19 vac",)

    def mentions(self, text: str, *words: str) -> bool:
        """Whether a text has one of the words: as a whole word or number (`fair`), or anywhere (`official`)."""
        if not self.fair:
            return any(word in text for word in words)
        return any(_whole(word).search(text) for word in words)


OFFICIAL = RuleSet("official", fair=False)
FAIR = RuleSet(
    "fair",
    fair=True,
    flu=("flu", "influenza"),
    covid=("covid", "covid19", "covidvaccine", "91320"),
    covid_vaccine=("covid-19 vac", "covid-19 vacc", "covid-19 vaccine"),
)
RULE_SETS: dict[RuleName, RuleSet] = {rules.name: rules for rules in (OFFICIAL, FAIR)}


def rule_name(text: str) -> RuleName:
    """Check the name of a rule set. Raises InputError if it is unknown."""
    for name in RULE_SETS:
        if name == text:
            return name
    raise InputError(f"unknown rules {text!r}; known: {', '.join(RULE_SETS)}")


@lru_cache(maxsize=256)
def _whole(word: str) -> re.Pattern[str]:
    """Matches a whole word, or a whole number: `25` matches in `25 mcg`, `25mcg` and `25.0`, but not in `125`."""
    if word.replace(",", "").isdigit():
        return re.compile(rf"(?<![\w.,-]){re.escape(word)}(?:\.0+)?(?!\d|[.,]\d)")
    return re.compile(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])")
