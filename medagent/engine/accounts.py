"""From which patients the items of a group were sampled, and why the others were left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from medagent.core.number_formats import counted

_MOST_LEFT_OUT = 0.1
"""The share of the patients from which on leaving them out is a warning."""


class Account(BaseModel):
    """How many items a group has, of how many patients it was looked for, how many of them were left out by reason, and
    for how many of the others something is due: an order or an answer. `alike`: the same answer, without an order, is
    right for all of them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    items: int
    patients: int
    left_out: dict[str, int]
    due: int
    alike: Annotated[bool, Field(exclude_if=lambda alike: not alike)] = False

    @property
    def ruled(self) -> int:
        """The number of patients for whom the rule says what is right."""
        return self.patients - sum(self.left_out.values())

    @property
    def reasons(self) -> str:
        """`2 another unit (mEq/kg, wanted mmol/L), 1 no time`."""
        return ", ".join(f"{count} {reason}" for reason, count in self.left_out.items())

    @property
    def is_useless(self) -> bool:
        """Whether one answer, without an order, is right for everybody."""
        return not self.due or self.alike

    def words(self, group: str) -> str:
        """The account of a group in one line."""
        line = f"{group}: {counted(self.items, 'tasks')} from {self.ruled} of {self.patients} patients"
        if not self.left_out:
            return line
        return f"{line}; {self.patients - self.ruled} left out: {self.reasons}"

    def warnings(self, group: str) -> Iterator[str]:
        """What makes the items unlike the patients, or useless."""
        left_out = self.patients - self.ruled
        if left_out > _MOST_LEFT_OUT * self.patients:
            yield (
                f"{group}: {left_out} of {self.patients} patients are left out, more than a tenth: a score says "
                f"nothing about them ({self.reasons})"
            )
        if self.ruled and not self.due:
            yield f"{group}: nobody has anything due, so it measures nothing: to do nothing is always right"
        elif self.alike:
            yield f"{group}: the same answer, without an order, is right for everybody, so it measures nothing"


def most_left_out(accounts: Mapping[str, Account]) -> str:
    """How many patients are left out, in words; empty if nobody is. Each group leaves out patients of the same
    hospital, so their numbers have no sum: it is the largest one.
    """
    most = max(accounts.values(), key=lambda account: account.patients - account.ruled, default=None)
    if most is None or most.patients == most.ruled:
        return ""
    words = f"{most.patients - most.ruled} of {most.patients} patients"
    return f"left out {words}" if len(accounts) == 1 else f"left out up to {words} per type"


def lines(accounts: Mapping[str, Account]) -> Iterator[str]:
    """The accounts of groups, a line each, and their warnings."""
    for group, account in accounts.items():
        yield account.words(group)
    for group, account in accounts.items():
        yield from account.warnings(group)
