"""How many stays of a hospital have abnormal results, next to published shares: python tools/hospital_tails.py [FILE].

A share counts stays with at least one result beyond a level, among stays in which the test was done. The published
shares are of other populations, so ours need only be of the same order: from a third (of intensive care: a sixth) to
twice a published share. Where no published share was found, at least one stay of a hundred must have such a result.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.hospital_chart import Chart, Resource, charts, where  # noqa: E402  # after sys.path

RARE = 0.01
"""The least share of stays where no published share was found."""


class Tail(NamedTuple):
    """Results below or above a level. `published` is the share of stays or patients of `source`; None: not found.

    `reason` limits it to stays for this reason (the beginning of its text, in lower case).
    """

    code: str
    side: str
    level: float
    published: float | None = None
    source: str = ""
    reason: str = ""

    @property
    def name(self) -> str:
        """`NA below 135`."""
        return f"{self.code} {self.side} {self.level:g}" + (f", {self.reason}" if self.reason else "")

    def holds(self, value: float) -> bool:
        """Whether a value is beyond the level."""
        return value < self.level if self.side == "below" else value > self.level


_ICU = "intensive care stays (doi:10.1097/CCM.0b013e31820a92c6)"
TAILS = (
    Tail("NA", "below", 135, 0.325, "6,539 stays in internal medicine (doi:10.3389/fmed.2020.00512)"),
    Tail("NA", "below", 130),
    Tail("PLT", "below", 150, 0.226, "961 inpatients from 65 years (doi:10.3390/hematolrep16040076)"),
    Tail("PLT", "below", 140),
    Tail("PLT", "below", 50, 0.046, f"18,917 {_ICU}"),
    Tail("LACT", "above", 4, 0.159, "3,238 adults in the resuscitation area of an emergency department (PMC8301278)"),
    Tail("MG", "below", 1.7, 0.174, "304 inpatients of internal medicine (doi:10.1155/2023/6650620)"),
    Tail("HCT", "below", 25, 0.254, f"19,046 {_ICU}"),
    Tail("CREA", "above", 1.99, 0.187, f"18,855 {_ICU}"),
    Tail("WBC", "above", 15, 0.382, f"18,509 {_ICU}"),
    Tail(
        "SPO2",
        "below",
        88,
        0.248,
        "1,618 admissions for it, without oxygen (Echevarria et al., Emerg Med J 2021, table 4)",
        "chronic obstructive",
    ),
    Tail("SPO2", "below", 88),
    Tail("TBIL", "above", 1.3),
    Tail("ALT", "above", 100),
)
WIDE = {"MG": 3.0}
"""Limits that are wider on purpose: tasks need a low magnesium, so it may be this many times as frequent."""


class TailShare(NamedTuple):
    """A tail in a hospital: the stays in which the test was done, those with a result beyond it, and the limits."""

    tail: Tail
    stays: int
    beyond: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """The share of stays."""
        return self.beyond / self.stays if self.stays else 0.0

    @property
    def kept(self) -> bool:
        """Whether the limits are kept."""
        return self.low <= self.share <= self.high


def tail_shares(lines: Iterable[str]) -> list[TailShare]:
    """The tails of a hospital."""
    stays, beyond = Counter[Tail](), Counter[Tail]()
    for chart in charts(lines):
        chart.prepare()
        values = _values(chart)
        for stay in chart.stays:
            for tail in TAILS:
                results = values.get((stay["id"], tail.code), [])
                if results and stay["reasonCode"][0]["text"].lower().startswith(tail.reason):
                    stays[tail] += 1
                    beyond[tail] += any(map(tail.holds, results))
    return [TailShare(tail, stays[tail], beyond[tail], *_limits(tail)) for tail in TAILS]


def _values(chart: Chart) -> dict[tuple[str, str], list[float]]:
    """The results of each stay and test."""
    values: dict[tuple[str, str], list[float]] = {}
    for reading in chart.of("Observation"):
        encounter = chart.encounters.get(where(reading) or "")
        if encounter is not None and "valueQuantity" in reading:
            place = _stay_of(encounter), reading["code"]["text"]
            values.setdefault(place, []).append(reading["valueQuantity"]["value"])
    return values


def _stay_of(encounter: Resource) -> str:
    """The id of the stay to which an encounter belongs, or its own."""
    whole = encounter.get("partOf", {}).get("reference", "").partition("/")[2]
    return str(whole or encounter["id"])


def _limits(tail: Tail) -> tuple[float, float]:
    if tail.published is None:
        return RARE, 1.0
    least = 6 if tail.source.endswith(_ICU) else 3
    return tail.published / least, tail.published * WIDE.get(tail.code, 2.0)


def main() -> int:
    """Print the shares; 1 if a limit is not kept."""
    from fhir_server.synthetic.bundled import hospital

    if len(sys.argv) > 1:
        with Path(sys.argv[1]).open(encoding="utf-8") as lines:
            shares = tail_shares(lines)
    else:
        shares = tail_shares(hospital())
    for row in shares:
        published = "" if row.tail.published is None else f", published {row.tail.published:.1%}"
        mark = "" if row.kept else "  NOT KEPT"
        print(f"{row.tail.name}: {row.share:.1%} of {row.stays} stays{published}{mark}")
    return 0 if all(row.kept for row in shares) else 1


if __name__ == "__main__":
    sys.exit(main())
