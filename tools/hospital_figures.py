"""Compares figures of a hospital's stays with those of a real one, and checks the bound of each.

    python tools/hospital_figures.py               # the bundled hospital; exit code 1 if a figure is out of bounds
    python tools/hospital_figures.py FILE.ndjson   # any hospital of `medagent data new`

The real figures are aggregates over the 275 stays of 100 patients in the MIMIC-IV clinical database demo on FHIR 2.1.0
(PhysioNet, ODbL 1.0). It is an intensive-care hospital, so its figures are used as bounds and not copied. Orders are
MedicationRequests.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.hospital_chart import Chart, Resource, charts, moment, where  # noqa: E402

SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
LABS: dict[str, tuple[tuple[float, ...], float]] = {
    "K": ((3.3, 3.7, 4.1, 4.5, 5.2), 0.097),
    "MG": ((1.6, 1.9, 2.0, 2.2, 2.6), 0.077),
    "GLU": ((78, 101, 123, 164, 291), 0.767),
    "CREA": ((0.4, 0.7, 1.0, 1.8, 4.1), 0.448),
    "HGB": ((7.1, 8.2, 9.5, 11.0, 13.4), 0.907),
}
"""Of the demo, by our code: quantiles in the unit of ours, and the share outside the reference range."""
HOURS = {"admission": (0.207, 0.167, 0.262, 0.364), "discharge": (0.036, 0.102, 0.789, 0.073)}
"""Of the demo: shares of 0 to 6, 7 to 11, 12 to 17 (discharge: 18), and later hours."""
DRAW_HOURS = (0.372, 0.166, 0.23, 0.233)
"""Of the demo: shares of draws from 0 to 6, 7 to 11, 12 to 17 and later."""
STAY_DAYS, DRAWS, ORDERS = (0.58, 2.67, 4.85, 8.69, 22.87), (0.62, 1.27, 1.91, 3.16, 5.01), (4, 26, 47, 88, 173)
"""Of the demo: quantiles of length, draws a day, and drug orders of a stay."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of ours, the real one, and the least and most that ours may be."""

    name: str
    ours: float
    real: float
    low: float
    high: float

    @property
    def kept(self) -> bool:
        """Whether the bound is kept."""
        return self.low <= self.ours <= self.high


class Counted:
    """What is counted over the stays of a hospital."""

    def __init__(self) -> None:
        self.admissions: list[int] = []
        self.discharges: list[int] = []
        self.days: list[float] = []
        self.draws: list[float] = []
        self.draw_hours: list[int] = []
        self.orders: list[float] = []
        self.labs: dict[str, list[float]] = {code: [] for code in LABS}
        self.outside = dict.fromkeys(LABS, 0)

    def add(self, chart: Chart) -> None:
        """Count a chart's stays; length, draws and orders of those that have ended."""
        for stay in chart.stays:
            self.admissions.append(moment(stay["period"]["start"]).hour)
            results = [
                one
                for one in chart.of("Observation")
                if one["category"][0]["coding"][0]["code"] == "laboratory" and where(one) == stay["id"]
            ]
            for one in results:
                self._result(one)
            if "end" in stay["period"]:
                self._finished(chart, stay, {one["effectiveDateTime"] for one in results})

    def _finished(self, chart: Chart, stay: Resource, draws: set[str]) -> None:
        start, end = moment(stay["period"]["start"]), moment(stay["period"]["end"])
        days = (end - start).total_seconds() / 86400
        self.discharges.append(end.hour)
        self.days.append(days)
        self.draws.append(len(draws) / max(1.0, days))
        self.draw_hours += [moment(time).hour for time in draws]
        self.orders.append(sum(where(one) == stay["id"] for one in chart.of("MedicationRequest")))

    def _result(self, one: Resource) -> None:
        code = one["code"]["text"]
        if code in self.labs and "valueQuantity" in one:
            self.labs[code].append(one["valueQuantity"]["value"])
            self.outside[code] += one["interpretation"][0]["coding"][0]["code"] != "N"


def quantiles(values: Sequence[float]) -> list[float]:
    """The values at `SHARES`."""
    ordered = sorted(values)
    return [ordered[int(share * (len(ordered) - 1))] for share in SHARES]


def parts(hours: Sequence[int], last: int = 17) -> list[float]:
    """The shares of 0 to 6, 7 to 11, 12 to `last`, and later hours."""
    counts = [0, 0, 0, 0]
    for hour in hours:
        counts[0 if hour < 7 else 1 if hour < 12 else 2 if hour <= last else 3] += 1
    return [one / len(hours) for one in counts]


def figures(lines: Iterable[str]) -> list[Figure]:
    """All figures of a hospital with the published codes. Shares of hours may differ by 0.2, medians lie between the
    real quartiles, results between the real 5 and 95 % with a quarter more on each side. Wider, on purpose: magnesium
    may be low, which tasks need, and haemoglobin that of people who are not in intensive care.
    """
    counted = Counted()
    for chart in charts(lines):
        chart.prepare()
        counted.add(chart)
    out = []
    for name, ours, real in (
        ("admission", parts(counted.admissions), HOURS["admission"]),
        ("discharge", parts(counted.discharges, 18), HOURS["discharge"]),
        ("draw", parts(counted.draw_hours), DRAW_HOURS),
    ):
        for span, share, expected in zip(("0–6", "7–11", "12–17", "later"), ours, real, strict=True):
            out.append(Figure(f"{name} at {span} h, share", share, expected, max(0.0, expected - 0.2), expected + 0.2))
    for name, values, real in (
        ("length of a stay, days", counted.days, STAY_DAYS),
        ("draws on a day of a stay", counted.draws, DRAWS),
        ("drug orders of a stay", counted.orders, ORDERS),
    ):
        out.append(Figure(f"{name}, median", quantiles(values)[2], real[2], real[1], real[3]))
    for code, (real, outside) in LABS.items():
        values = counted.labs[code]
        for share, value, expected in zip(SHARES, quantiles(values), real, strict=True):
            low, high = (real[1], real[3]) if share == 0.5 else (real[0] * 0.75, real[4] * 1.25)
            low, high = (real[0] * 0.5 if code == "MG" and share < 0.1 else low), 17.5 if code == "HGB" else high
            out.append(Figure(f"{code}, {share:.0%}".replace("%", " %"), value, expected, low, max(high, expected)))
        share = counted.outside[code] / len(values)
        out.append(Figure(f"{code} outside the reference range, share", share, outside, 0.0, outside + 0.15))
    return out


def main() -> int:
    """Print the figures; 1 if a bound is not kept."""
    from fhir_server.synthetic.bundled import hospital

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", nargs="?", type=Path, help="an NDJSON file of a hospital")
    chosen = parser.parse_args()
    lines: Iterable[str] = chosen.file.open(encoding="utf-8") if chosen.file else hospital()
    computed = figures(lines)
    for one in computed:
        mark = "" if one.kept else "  NOT KEPT"
        print(f"{one.name}: {one.ours:.3g}, real {one.real:.3g}, bound {one.low:.3g} to {one.high:.3g}{mark}")
    return 0 if all(one.kept for one in computed) else 1


if __name__ == "__main__":
    sys.exit(main())
