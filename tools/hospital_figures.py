"""Compares numbers of a hospital's stays with a real hospital's, and checks the limit of each.

    python tools/hospital_figures.py               # the bundled hospital; exit code 1 if a number is out of limits
    python tools/hospital_figures.py FILE.ndjson   # any hospital of `medagent data new`

The real numbers are aggregates over the 275 stays of 100 patients in the MIMIC-IV clinical database demo on FHIR 2.1.0
(PhysioNet, ODbL 1.0). It is an intensive-care hospital, so its numbers are used as limits and not copied. Orders are
MedicationRequests.

It also checks that the change to a deciding value does not give it away: among all changes from one value of a test to
the next in a chart, how often is the change to a deciding value larger than another one (AUC; 0.5: never told apart)?
"""

from __future__ import annotations

import argparse
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.hospital_chart import Chart, Resource, charts, moment, where  # noqa: E402  # after sys.path

SHARES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
LABS: dict[str, tuple[tuple[float, ...], float]] = {
    "K": ((3.0, 3.3, 3.7, 4.1, 4.5, 5.2, 5.9), 0.097),
    "MG": ((1.4, 1.6, 1.9, 2.0, 2.2, 2.6, 2.9), 0.077),
    "GLU": ((62, 78, 101, 123, 164, 291, 389), 0.767),
    "CREA": ((0.3, 0.4, 0.7, 1.0, 1.8, 4.1, 7.5), 0.448),
    "HGB": ((6.5, 7.1, 8.2, 9.5, 11.0, 13.4, 14.9), 0.907),
}
"""Of the demo, by our code: quantiles in the unit of ours, and the share outside the reference range."""
ABOVE = {"K": (5.5, 0.0228), "GLU": (300, 0.0395)}
"""Of the demo: the share of values above a level."""
LOWEST = {("MG", 0.01): 0.5, ("MG", 0.05): 0.8}
HIGHEST = {("HGB", 0.5): 17.5}
OUTSIDE = {"MG": 0.3}
"""Limits that are wider on purpose: of quantiles downwards and upwards, and of the share outside the range."""
DECIDING = ("K", "MG", "GLU", "A1C")
DAY = timedelta(days=1)
HOURS = {"admission": (0.207, 0.167, 0.262, 0.364), "discharge": (0.036, 0.102, 0.789, 0.073)}
"""Of the demo: shares of 0 to 6, 7 to 11, 12 to 17 (discharge: 18), and later hours."""
DRAW_HOURS = (0.372, 0.166, 0.23, 0.233)
"""Of the demo: shares of blood samples from 0 to 6, 7 to 11, 12 to 17 and later."""
STAY_DAYS, DRAWS, ORDERS = (0.58, 2.67, 4.85, 8.69, 22.87), (0.62, 1.27, 1.91, 3.16, 5.01), (4, 26, 47, 88, 173)
"""Of the demo: quantiles of length, samples a day, and drug orders of a stay."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of ours, the real one, and the least and most that ours may be."""

    name: str
    ours: float
    real: float
    low: float
    high: float

    @property
    def kept(self) -> bool:
        """Whether the limit is kept."""
        return self.low <= self.ours <= self.high


class Counted:
    """What is counted over the stays of a hospital. `changes`, by test: those to deciding values, and the others."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self.changes: dict[str, tuple[list[float], list[float]]] = {code: ([], []) for code in DECIDING}
        self.admissions: list[int] = []
        self.discharges: list[int] = []
        self.days: list[float] = []
        self.draws: list[float] = []
        self.draw_hours: list[int] = []
        self.orders: list[float] = []
        self.labs: dict[str, list[float]] = {code: [] for code in LABS}
        self.outside = dict.fromkeys(LABS, 0)

    def add(self, chart: Chart) -> None:
        """Count a chart's changes and stays; length, samples and orders of stays that have ended."""
        for code in DECIDING:
            self._change(chart, code)
        for stay in chart.stays:
            self.admissions.append(moment(stay["period"]["start"]).hour)
            results = [
                observation
                for observation in chart.of("Observation")
                if observation["category"][0]["coding"][0]["code"] == "laboratory" and where(observation) == stay["id"]
            ]
            for result in results:
                self._result(result)
            if "end" in stay["period"]:
                self._finished(chart, stay, {result["effectiveDateTime"] for result in results})

    def _change(self, chart: Chart, code: str) -> None:
        """The last value of a living patient decides, of glucose all values of the last day."""
        readings = sorted(
            {
                (moment(observation["effectiveDateTime"]), observation["valueQuantity"]["value"])
                for observation in chart.of("Observation")
                if observation["code"].get("text") == code and "valueQuantity" in observation
            }
        )
        alive = "deceasedDateTime" not in chart.patient
        for (before, old), (time, new) in pairwise(readings):
            decides = alive and (time >= self._now - DAY if code == "GLU" else time == readings[-1][0])
            if time > before:
                self.changes[code][not decides].append(round(abs(new - old), 6))

    def _finished(self, chart: Chart, stay: Resource, draws: set[str]) -> None:
        start, end = moment(stay["period"]["start"]), moment(stay["period"]["end"])
        days = (end - start).total_seconds() / 86400
        self.discharges.append(end.hour)
        self.days.append(days)
        self.draws.append(len(draws) / max(1.0, days))
        self.draw_hours += [moment(time).hour for time in draws]
        self.orders.append(sum(where(order) == stay["id"] for order in chart.of("MedicationRequest")))

    def _result(self, observation: Resource) -> None:
        code = observation["code"]["text"]
        if code in self.labs and "valueQuantity" in observation:
            self.labs[code].append(observation["valueQuantity"]["value"])
            self.outside[code] += observation["interpretation"][0]["coding"][0]["code"] != "N"


def quantiles(values: Sequence[float]) -> list[float]:
    """The values at `SHARES`."""
    ordered = sorted(values)
    return [ordered[int(share * (len(ordered) - 1))] for share in SHARES]


def parts(hours: Sequence[int], last: int = 17) -> list[float]:
    """The shares of 0 to 6, 7 to 11, 12 to `last`, and later hours."""
    counts = [0, 0, 0, 0]
    for hour in hours:
        counts[0 if hour < 7 else 1 if hour < 12 else 2 if hour <= last else 3] += 1
    return [count / len(hours) for count in counts]


def auc(higher: Sequence[float], lower: Sequence[float]) -> float:
    """The share of pairs of which the value of `higher` is the higher one; equal values count half."""
    ordered = sorted(lower)
    below = sum(bisect_left(ordered, value) + bisect_right(ordered, value) for value in higher)
    return below / (2 * len(higher) * len(lower))


def figures(lines: Iterable[str], now: datetime | None = None) -> list[Figure]:
    """All numbers of a hospital with the published codes, with its clock if it is not the published one.

    Shares of hours may differ by 0.2. A quantile lies between the real quantiles before and after it (5 to 95%) or, if
    it is the first or last, the real one; all but medians with a quarter more on each side. Shares of high results may
    be half or twice the real ones. Wider, on purpose: magnesium may be low, which tasks need, and haemoglobin as in
    people who are not in intensive care.
    """
    from fhir_server.synthetic.bundled import PROFILE

    counted = Counted(now or PROFILE.now)
    for chart in charts(lines):
        chart.prepare()
        counted.add(chart)
    return [*_hours(counted), *_stays(counted), *_results(counted), *_changes(counted)]


def _hours(counted: Counted) -> Iterable[Figure]:
    for name, ours, real in (
        ("admission", parts(counted.admissions), HOURS["admission"]),
        ("discharge", parts(counted.discharges, 18), HOURS["discharge"]),
        ("blood sample", parts(counted.draw_hours), DRAW_HOURS),
    ):
        for span, share, expected in zip(("0–6", "7–11", "12–17", "later"), ours, real, strict=True):
            yield Figure(f"{name} at {span} h, share", share, expected, max(0.0, expected - 0.2), expected + 0.2)


def _stays(counted: Counted) -> Iterable[Figure]:
    for name, values, real in (
        ("length of a stay, days", counted.days, STAY_DAYS),
        ("blood samples on a day of a stay", counted.draws, DRAWS),
        ("drug orders of a stay", counted.orders, ORDERS),
    ):
        yield Figure(f"{name}, median", quantiles(values)[3], real[2], real[1], real[3])


def _results(counted: Counted) -> Iterable[Figure]:
    for code, (real, outside) in LABS.items():
        values = counted.labs[code]
        for place, (share, value) in enumerate(zip(SHARES, quantiles(values), strict=True)):
            margin = 0.0 if share == 0.5 else 0.25
            low = real[max(place - 1, min(place, 1))] * (1 - margin)
            high = real[min(place + 1, max(place, 5))] * (1 + margin)
            low, high = LOWEST.get((code, share), low), HIGHEST.get((code, share), high)
            yield Figure(f"{code}, {share:.0%}", value, real[place], low, high)
        share = counted.outside[code] / len(values)
        name = f"{code} outside the reference range, share"
        yield Figure(name, share, outside, 0.0, outside + OUTSIDE.get(code, 0.15))
        if code in ABOVE:
            level, expected = ABOVE[code]
            share = sum(value > level for value in values) / len(values)
            yield Figure(f"{code} above {level}, share", share, expected, expected / 2, expected * 2)


def _changes(counted: Counted) -> Iterable[Figure]:
    """The mean over the tests, weighted by their deciding values."""
    total = sum(len(deciding) for deciding, _ in counted.changes.values())
    mean = sum(len(deciding) * auc(deciding, others) for deciding, others in counted.changes.values()) / total
    yield Figure("change to deciding values, AUC", mean, 0.5, 0.45, 0.55)


def main() -> int:
    """Print the numbers; 1 if a limit is not kept."""
    from fhir_server.synthetic.bundled import hospital

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", nargs="?", type=Path, help="an NDJSON file of a hospital")
    chosen = parser.parse_args()
    lines: Iterable[str] = chosen.file.open(encoding="utf-8") if chosen.file else hospital()
    computed = figures(lines)
    for figure in computed:
        mark = "" if figure.kept else "  NOT KEPT"
        print(
            f"{figure.name}: {figure.ours:.3g}, real {figure.real:.3g}, "
            f"limits {figure.low:.3g} to {figure.high:.3g}{mark}"
        )
    return 0 if all(figure.kept for figure in computed) else 1


if __name__ == "__main__":
    sys.exit(main())
