"""Generates the bundled and a full data set, and writes benchmarks/measured/hospital.md: python tools/data_card.py.

The numbers of the original are from its paper and its published image.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # before the imports below, which are of this checkout (E402)

from medagent.benchmarks.generated_sets import HOSPITAL  # noqa: E402  # after sys.path
from medagent.benchmarks.medagentbench.generator.write import Like, MabGenerator  # noqa: E402  # after sys.path
from medagent.engine.data_sets import SetOptions  # noqa: E402  # after sys.path
from refsol.clinical.one_page import PAGE_SIZE  # noqa: E402  # after sys.path
from tools.clinical_rules import audit, sentence  # noqa: E402  # after sys.path
from tools.hospital_figures import figures  # noqa: E402  # after sys.path
from tools.hospital_tails import tail_shares  # noqa: E402  # after sys.path

PAGE = ROOT / "benchmarks" / "measured" / "hospital.md"
SEEDS: dict[Like, str] = {"bundled": "synthetic", "full": "data card"}
ORIGINAL = {"Observation": 5634, "Procedure": 1250, "Condition": 748, "MedicationRequest": 220}
"""Resources a patient in the original, as its paper reports them."""
KEY_TESTS = {"MG": "task4, task5", "K": "task9", "GLU": "task6, task7", "A1C": "task10"}
"""The tests that decide tasks, with the types of these."""
PAIRS = (
    ("HGB", "HCT"),
    ("NA", "CL"),
    ("BUN", "CREA"),
    ("K", "CREA"),
    ("CO2", "CL"),
    ("ALT", "AST"),
    ("ALB", "CRP"),
    ("WBC", "CRP"),
    ("GLU", "A1C"),
)
TESTS = ("MG", "K", "GLU", "A1C", "NA", "CL", "CO2", "BUN", "CREA", "HGB", "WBC", "PLT", "ALT", "CRP")


def main() -> None:
    """Write the page."""
    with TemporaryDirectory() as aside:
        sets = {like: _facts(Path(aside) / like, like) for like in SEEDS}
        checked = _checked(Path(aside) / "bundled" / HOSPITAL)
    PAGE.write_text(_page(sets["bundled"], sets["full"], checked), encoding="utf-8", newline="\n")


class _Facts:
    """What the page says of one hospital."""

    def __init__(self) -> None:
        self.types: Counter[str] = Counter()
        self.statuses: dict[str, Counter[str]] = defaultdict(Counter)
        self.draws: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        self.values: dict[str, list[float]] = defaultdict(list)
        self.times: dict[tuple[str, str], list[str]] = defaultdict(list)
        """The times of the key tests by test and patient, in the stored order."""
        self.missing = self.bounded = 0
        self.earliest = "9"

    def add(self, resource: dict[str, Any]) -> None:
        """Count one resource."""
        kind = resource["resourceType"]
        self.types[kind] += 1
        if "status" in resource:
            self.statuses[kind][resource["status"]] += 1
        if kind != "Observation":
            return
        self.earliest = min(self.earliest, resource["effectiveDateTime"])
        quantity = resource.get("valueQuantity")
        self.missing += "dataAbsentReason" in resource
        if quantity is not None:
            self.bounded += "comparator" in quantity
            code, value = resource["code"]["text"], quantity["value"]
            self.values[code].append(value)
            if code in KEY_TESTS:
                self.times[code, resource["subject"]["reference"]].append(resource["effectiveDateTime"])
            self.draws[resource["subject"]["reference"], resource["effectiveDateTime"]][code] = value

    def hidden(self, code: str) -> tuple[int, int, int]:
        """The charts with this test, those with more readings than a page, and those whose newest is behind it."""
        charts = [times for (test, _), times in self.times.items() if test == code]
        longer = [times for times in charts if len(times) > PAGE_SIZE]
        return len(charts), len(longer), sum(max(times) not in times[:PAGE_SIZE] for times in longer)

    def correlation(self, a: str, b: str) -> float:
        """Pearson's r over samples with both tests; of GLU and A1C over patients' means."""
        pairs = [(draw[a], draw[b]) for draw in self.draws.values() if a in draw and b in draw]
        x, y = (sum(pair[place] for pair in pairs) / len(pairs) for place in (0, 1))
        together = sum((p - x) * (q - y) for p, q in pairs)
        return float(together / (sum((p - x) ** 2 for p, _ in pairs) * sum((q - y) ** 2 for _, q in pairs)) ** 0.5)


def _facts(folder: Path, like: Like) -> _Facts:
    MabGenerator().make(folder, SetOptions(like=like, seed=SEEDS[like]))
    facts = _Facts()
    for resource in _resources(folder / HOSPITAL):
        facts.add(resource)
    return facts


def _resources(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _checked(hospital: Path) -> dict[str, str]:
    """The tables of the real hospital's numbers and of the clinical rules."""
    with hospital.open(encoding="utf-8") as lines:
        rows = [
            [figure.name, f"{figure.ours:.3g}", f"{figure.real:.3g}", f"{figure.low:.3g} to {figure.high:.3g}"]
            for figure in figures(lines)
        ]
    with hospital.open(encoding="utf-8") as lines:
        shown = [
            [
                row.tail.name,
                f"{row.share:.1%} of {row.stays}",
                "–" if row.tail.published is None else f"{row.tail.published:.1%}",
                row.tail.source or "no published share found",
            ]
            for row in tail_shares(lines)
        ]
    with hospital.open(encoding="utf-8") as lines:
        rules = [
            [sentence(name), str(tally.checked), str(len(tally.violations))] for name, tally in audit(lines).items()
        ]
    return {
        "tails": _table(["result", "bundled, of stays", "published", "of"], shown),
        "figures": _table(["number", "bundled", "real", "limits"], rows),
        "rules": _table(["rule", "checked", "violations"], rules),
    }


def _page(bundled: _Facts, full: _Facts, checked: dict[str, str]) -> str:
    text = Path(__file__).with_name("data_card.md").read_text(encoding="utf-8")
    return text.format(
        **checked,
        seed=SEEDS["full"],
        counts=_counts(bundled, full),
        hidden=_table(
            ["test", "tasks", "charts", "more than 20 readings", "newest beyond the first 20", "the same, full size"],
            [[code, types, *_hidden(bundled, full, code)] for code, types in KEY_TESTS.items()],
        ),
        correlations=_table(
            ["tests", "bundled", "full"],
            [[f"{a}–{b}", *(f"{facts.correlation(a, b):.2f}" for facts in (bundled, full))] for a, b in PAIRS],
        ),
        values=_table(
            ["test", "n", "5%", "median", "95%"],
            [[code, str(len(row)), *_quantiles(row)] for code in TESTS if (row := sorted(bundled.values[code]))],
        ),
        statuses=_table(
            ["resource", "statuses (share)"],
            [[kind, _shares(bundled.statuses[kind])] for kind in sorted(bundled.statuses)],
        ),
        missing=f"{bundled.missing / bundled.types['Observation']:.2%}",
        bounded=f"{bundled.bounded / bundled.types['Observation']:.2%}",
        earliest=f"{bundled.earliest[:10]} (bundled), {full.earliest[:10]} (full)",
    )


def _hidden(bundled: _Facts, full: _Facts, code: str) -> list[str]:
    charts, longer, hidden = bundled.hidden(code)
    of_full, _, hidden_of_full = full.hidden(code)
    return [str(charts), f"{longer / charts:.0%}", f"{hidden / charts:.0%}", f"{hidden_of_full / of_full:.0%}"]


def _counts(bundled: _Facts, full: _Facts) -> str:
    rows = [
        [
            kind,
            str(ORIGINAL.get(kind, "–")),
            *(f"{facts.types[kind] / facts.types['Patient']:.1f}" for facts in (full, bundled)),
        ]
        for kind, _ in full.types.most_common()
    ]
    totals = [str(facts.types.total()) for facts in (full, bundled)]
    return _table(
        ["a patient", "original", "full", "bundled"], [*rows, ["all, of 100 patients", "about 785,000", *totals]]
    )


def _quantiles(ordered: list[float]) -> list[str]:
    return [f"{ordered[int(share * (len(ordered) - 1))]:g}" for share in (0.05, 0.5, 0.95)]


def _shares(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count / counts.total():.1%}" for name, count in counts.most_common())


def _table(columns: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in [columns, ["---"] * len(columns), *rows]]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
