"""Builds the bundled task set from the made-up hospital: `python -m medagent.benchmarks.medagentbench.tasks.synthetic`.

The hospital's lines are read back, each patient is put into the branch of each task type that the chart calls for, and
the tasks are dealt so that every branch comes up evenly, also among the first ten of a type, which make up v1.
The branches are worked out here with the benchmark's rules; nothing is taken over from the hospital's plan.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fhir_server.synthetic import generate, names
from fhir_server.synthetic.dice import Dice
from medagent.benchmarks.medagentbench.tasks.wording import CONTEXTS, INSTRUCTIONS
from refsol.medagentbench import NdjsonEhr, build_key, write_key
from refsol.medagentbench.constants import PUBLISHED

FOLDER = Path(__file__).parent / "data" / "synthetic@1"
NOT_FOUND = "Patient not found"
PER_TYPE = {"v1": 10, "v2": 30}
_NOW, _DAY_AGO, _YEAR_AGO = PUBLISHED.now, PUBLISHED.window_start, PUBLISHED.a1c_start
_CODES = ("MG", "GLU", "K", "A1C")

Level = tuple[datetime, float]


@dataclass(slots=True)
class Chart:
    """What the tasks ask about a patient. `levels` has the readings by code, oldest first."""

    mrn: str
    given: str
    family: str
    birth: date
    levels: dict[str, list[Level]] = field(default_factory=lambda: {code: [] for code in _CODES})

    def last(self, code: str, since: datetime | None = None) -> Level | None:
        """The latest level, or None where there is none at or after `since`."""
        levels = self.levels[code]
        return levels[-1] if levels and (since is None or levels[-1][0] >= since) else None


def read_charts(lines: Iterable[str]) -> list[Chart]:
    """The patients of the hospital with the readings that the tasks need."""
    charts: dict[str, Chart] = {}
    for line in lines:
        if line.startswith('{"resourceType":"Patient"'):
            found = json.loads(line)
            name, birth = found["name"][0], date.fromisoformat(found["birthDate"])
            charts[found["id"]] = Chart(found["id"], name["given"][0], name["family"], birth)
        elif any(f'"text":"{code}"' in line for code in _CODES):
            found = json.loads(line)
            time = datetime.fromisoformat(found["effectiveDateTime"])
            chart = charts[found["subject"]["identifier"]["value"]]
            chart.levels[found["code"]["text"]].append((time, found["valueQuantity"]["value"]))
    for chart in charts.values():
        for levels in chart.levels.values():
            levels.sort()
    return list(charts.values())


def _birthday(chart: Chart) -> str:
    day, today = (chart.birth.month, chart.birth.day), (_NOW.month, _NOW.day)
    return "on" if day == today else "before" if day < today else "after"


def _measured(code: str, since: datetime | None) -> Callable[[Chart], str]:
    return lambda chart: "with" if chart.last(code, since) else "without"


def _magnesium(chart: Chart) -> str:
    level = chart.last("MG", _DAY_AGO)
    if level is None:
        return "none"
    value = level[1]
    return "normal" if value > 1.9 else "mild" if value >= 1.5 else "moderate" if value >= 1 else "severe"


def _potassium(chart: Chart) -> str:
    level = chart.last("K")
    return "none" if level is None else "low" if level[1] < 3.5 else "normal"


def _a1c(chart: Chart) -> str:
    level = chart.last("A1C")
    return "none" if level is None else "old" if level[0] < _YEAR_AGO else "recent"


def _near(code: str, moment: datetime) -> Callable[[Chart], bool]:
    """Whether the last level lies within an hour of `moment`."""
    return lambda chart: any(abs(time - moment) < timedelta(hours=1) for time, _ in chart.levels[code][-1:])


def _near_birthday(chart: Chart) -> bool:
    return chart.birth.replace(year=2024) in (date(2024, 11, 12), date(2024, 11, 14), date(2024, 2, 29))


def _anyone(_: Chart) -> str:
    return "any"


@dataclass(frozen=True, slots=True)
class Deal:
    """How the tasks of a type are dealt: a chart's branch, the branches in the order they come up, and which charts
    lie so close to the edge of a branch that they are to be among the tasks."""

    branch: Callable[[Chart], str]
    order: tuple[str, ...]
    edge: Callable[[Chart], bool] = lambda _: False


DEALS = {
    "task2": Deal(_birthday, ("on", "before", "after"), _near_birthday),
    "task3": Deal(_anyone, ("any",)),
    "task4": Deal(_measured("MG", _DAY_AGO), ("with", "without"), _near("MG", _DAY_AGO)),
    "task5": Deal(_magnesium, ("severe", "none", "mild", "normal", "moderate"), _near("MG", _DAY_AGO)),
    "task6": Deal(_measured("GLU", _DAY_AGO), ("with", "without"), _near("GLU", _DAY_AGO)),
    "task7": Deal(_measured("GLU", None), ("with", "with", "with", "without", "with", "with", "with")),
    "task8": Deal(_anyone, ("any",)),
    "task9": Deal(_potassium, ("low", "none", "normal")),
    "task10": Deal(_a1c, ("old", "recent", "none"), _near("A1C", _YEAR_AGO)),
}
LOOK_UPS = (
    *("found", "namesake", "same name", "found", "unknown", "namesake", "same birth date", "found", "unknown", "found"),
    *("namesake", "found", "same birth date", "namesake", "same name"),
)
"""The branches of task1: the last three of "found", "namesake" (another patient has the same name, or the same birth
date and family name) are answered by an MRN, the others by NOT_FOUND."""


def tasks(lines: Iterable[str]) -> list[dict[str, Any]]:
    """The tasks of v2 over the hospital of these NDJSON lines, in the published form."""
    charts = read_charts(lines)
    out = list(_look_ups(charts, Dice(1)))
    for number, (kind, deal) in enumerate(DEALS.items(), start=2):
        for place, chart in enumerate(_dealt(charts, deal, Dice(number))):
            out.append(_item(kind, place, {"mrn": chart.mrn}, eval_MRN=chart.mrn))
    return out


def _item(kind: str, place: int, words: dict[str, str], **rest: Any) -> dict[str, Any]:
    variants = INSTRUCTIONS[kind]
    instruction = variants[place % len(variants)].format(**words)
    return {"id": f"{kind}_{place + 1}", "instruction": instruction, "context": CONTEXTS[kind], **rest}


def _dealt(charts: list[Chart], deal: Deal, dice: Dice) -> Iterator[Chart]:
    """Charts for the tasks of a type: every branch in its turn, no patient twice, those at an edge among them."""
    order = [deal.order[place % len(deal.order)] for place in range(PER_TYPE["v2"])]
    hands: dict[str, Iterator[Chart]] = {}
    for branch in dict.fromkeys(order):
        fitting = dice.shuffled([chart for chart in charts if deal.branch(chart) == branch])
        fitting.sort(key=lambda chart: not deal.edge(chart))
        hands[branch] = iter(dice.shuffled(fitting[: order.count(branch)]))
    return (next(hands[branch]) for branch in order)


def _look_ups(charts: list[Chart], dice: Dice) -> Iterator[dict[str, Any]]:
    known = {(chart.given, chart.family, chart.birth) for chart in charts}
    hands = {True: iter(dice.shuffled([c for c in charts if _has_namesake(c, charts)]))}
    hands[False] = iter(dice.shuffled([c for c in charts if not _has_namesake(c, charts)]))
    for place in range(PER_TYPE["v2"]):
        branch = LOOK_UPS[place % len(LOOK_UPS)]
        chart = next(hands[branch == "namesake"])
        asked = (chart.given, chart.family, chart.birth)
        while branch not in ("found", "namesake") and asked in known:
            asked = _near_miss(branch, chart, dice)
        words = {"given": asked[0], "family": asked[1], "birth": asked[2].isoformat()}
        answer = {"sol": [chart.mrn], "eval_MRN": chart.mrn} if asked in known else {"sol": [NOT_FOUND]}
        yield _item("task1", place, words, **answer)


def _has_namesake(chart: Chart, charts: list[Chart]) -> bool:
    return any(
        other.mrn != chart.mrn
        and other.family == chart.family
        and (other.given == chart.given or other.birth == chart.birth)
        for other in charts
    )


def _near_miss(branch: str, chart: Chart, dice: Dice) -> tuple[str, str, date]:
    """Name and birth date that nearly are the patient's, or (`unknown`) those of nobody."""
    given, family, birth = chart.given, chart.family, chart.birth
    if branch in ("same name", "unknown"):
        birth += timedelta(days=dice.pick((-365, -30, -10, -1, 1, 9, 31, 365)))
    if branch == "same birth date":
        givens = names.FEMALE if given in names.FEMALE else names.MALE
        given = givens[(givens.index(given) + dice.pick((-2, -1, 1, 2))) % len(givens)]
    if branch == "unknown":
        given, family = dice.pick(names.FEMALE + names.MALE), dice.pick(names.FAMILIES)
    return given, family, birth


def build(folder: Path) -> None:
    """Write the task files and the answer keys of both versions into a folder."""
    lines = list(generate())
    everything = tasks(lines)
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as scratch:
        hospital = Path(scratch) / "hospital.ndjson"
        hospital.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
        ehr = NdjsonEhr(hospital)
        for version in PER_TYPE:
            text = render(everything, version)
            (folder / f"test_data_{version}.json").write_text(text, encoding="utf-8", newline="\n")
            write_key(folder / f"key_{version}.json", build_key(json.loads(text), ehr))


def render(everything: list[dict[str, Any]], version: str) -> str:
    """The text of a version's task file: the first tasks of each type."""
    last = PER_TYPE[version]
    chosen = [item for item in everything if int(item["id"].partition("_")[2]) <= last]
    return json.dumps(chosen, ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    build(FOLDER)
