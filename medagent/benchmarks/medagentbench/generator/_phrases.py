"""The texts of generated tasks: instructions from `wording.toml` in three registers, and the context of each type.

A context states all constants of the rules (clock, codes, units, thresholds, doses, intervals) with the data set's
values. An agent that reads it does not need another source; an agent that recalls published values may be wrong.
"""

from __future__ import annotations

import tomllib
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from medagent.engine.data_sets import Split
from refsol.medagentbench.constants import Constants

NOT_FOUND = "Patient not found"
_FILE = Path(__file__).with_name("wording.toml")
_USED: dict[Split | None, tuple[str, ...]] = {
    None: ("common",),
    "train": ("common",),
    "dev": ("common",),
    "test": ("common", "test"),
    "ood": ("ood",),
}
"""The groups of wordings that each split may use."""
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


@cache
def _file() -> dict[str, Any]:
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


def wordings(task_type: str, split: Split | None) -> tuple[str, ...]:
    """The templates of a type that a split may use."""
    groups = _file()[task_type]
    return tuple(text for group in _USED[split] for register in groups[group].values() for text in register)


def instruction(template: str, constants: Constants, variant: int, words: dict[str, str]) -> str:
    """Fill in a template. `variant` selects the way to write hours."""
    hours = constants.look_back_hours
    hour = constants.follow_up_hour
    return template.format(
        **words,
        pressure=constants.blood_pressure,
        referral=constants.referral,
        window=(f"{hours} hours", f"{hours} h")[variant % 2],
        interval=constants.a1c_interval,
        morning=(f"{hour} am", f"{hour:02d}:00", f"{hour} o'clock in the morning")[variant % 3],
    )


def written_date(day: date, variant: int) -> str:
    """A date in one of four unambiguous formats."""
    month = _MONTHS[day.month - 1]
    return (
        day.isoformat(),
        f"{day.day} {month} {day.year}",
        f"{month} {day.day}, {day.year}",
        f"{day.day:02d}-{month[:3]}-{day.year}",
    )[variant % 4]


def contexts(constants: Constants) -> dict[str, str]:
    """The context of each type, with these constants."""
    words = {
        "c": constants,
        "clock": f"The current time is {constants.now_text}.",
        "mrn": constants.mrn_form.replace("#", "1").replace("@", "A"),
        "not_found": NOT_FOUND,
        "window": f"the last {constants.look_back_hours} hours",
        "dosing": _dosing(constants),
        "time": constants.now.replace(day=1, hour=3, minute=5).isoformat(),
    }
    return {kind: text.format(**words) for kind, text in _file()["contexts"].items()}


def _dosing(constants: Constants) -> str:
    """`1.5 to 1.9 is a mild deficiency, give 1 g IV over 1 hour; …`."""
    (severe, most), (moderate, more), (mild, least) = constants.magnesium_doses

    def give(grams: int) -> str:
        hours = grams * constants.magnesium_hours_per_gram
        return f"give {grams} g IV over {hours} hour{'' if hours == 1 else 's'}"

    return (
        f"{moderate} to {mild} is a mild deficiency, {give(least)}; from {severe} to below {moderate} a moderate one, "
        f"{give(more)}; below {severe} a severe one, {give(most)}"
    )
