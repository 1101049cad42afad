"""The default table of every benchmark fits 25 lines and 78 columns, whatever the width of the terminal."""

from __future__ import annotations

import io
import shlex
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from medagent.engine.report import DataRef, ItemOutcome, Report, TableLine, TableSection
from medagent.engine.rows import Spent
from medagent.reports.end import print_findings
from medagent.reports.summary import COLUMNS, LINES, print_summary, summary
from tests.command import medagent
from tests.loopback import ModelServer
from tests.medagent.benchmarks.custom.ward3 import write
from tests.medagent.benchmarks.imapscore.oracle import Oracle
from tests.shared_data import DATA


def ran(*words: object) -> Path:
    """The folder of a run."""
    done = medagent("run", *words, "--results-dir", "results", "--round", "r", "--quiet")
    assert done.code == 0, done.err
    (file,) = Path("results").glob("*/run.json")
    return file.parent


def imapscore() -> Path:
    with ModelServer(reply=Oracle()) as server:
        return ran("imapscore", "--model", "m", "--base-url", server.url)


def simpleqa() -> Path:
    file = (DATA / "finished" / "0.1.0.tar.xz").read_bytes()
    with tarfile.open(fileobj=io.BytesIO(file), mode="r:xz") as archive:
        archive.extractall(filter="data")
    return Path("results/simpleqa-husimpleqa_old_m")


def ward() -> Path:
    code, patients = write(Path.cwd())
    return ran(code, "--ehr", patients, "--agent", "constant")


def twins() -> Path:
    code, patients = write(Path.cwd())
    assert medagent("data", "twins", "--from", code, "--ehr", patients, "--out", "twins").code == 0
    return ran(code, "--dataset", "twins", "--agent", "nop")


BENCHMARKS: dict[str, tuple[Callable[[], Path], list[str]]] = {
    "medagentbench": (
        lambda: ran("--agent", "nop"),
        [
            "MedAgentBench v2, synthetic patients · nop · text",
            "Score 9.0% (27 of 300; 92 patients)   95% interval 6.5–12.3",
            "Doing nothing 9.0   constant 15.7   blind 36.0: this run is below blind",
            "task5   replace magnesium        7 / 30    23.3%      0 / 30",
            "doing nothing was right         27 / 27   100.0%      0 / 27",
            "Wrong: 213 data never read, 60 order missing",
            "Synthetic patients: not comparable with published scores.",
            "Next: medagent show results/v2_r_nop --wrong",
        ],
    ),
    "psb-300": (lambda: ran("psb-300", "--agent", "nop"), ["psb-300, synthetic patients · nop · text"]),
    "fhir-agentbench": (lambda: ran("fhir-agentbench", "--agent", "nop"), ["Wrong: 228 nothing found"]),
    "promptcblue": (lambda: ran("promptcblue", "--agent", "majority"), ["PromptCBLUE test.jsonl · majority"]),
    "imapscore": (imapscore, ["without λ"]),
    "simpleqa": (simpleqa, ["By language: en 0.5000, hu 0.5000", "Wrong: 28 incorrect"]),
    "ward": (ward, ["an order was due"]),
    "twins": (twins, ["right on both"]),
}


SLOW = ("psb-300", "fhir-agentbench")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name in SLOW else ()) for name in BENCHMARKS]
)
def test_the_table_of_each_benchmark_fits_any_terminal(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    make, expected = BENCHMARKS[name]
    folder = make()
    code = ("--benchmark", "ward3.py") if name in ("ward", "twins") else ()
    for width in (60, 80, 140):
        monkeypatch.setenv("COLUMNS", str(width))
        printed = medagent("grade", folder, *code)
        assert printed.code == 0, printed.err
        lines = printed.out.splitlines()
        print(f"\n{name} at {width} columns\n{printed.out}")
        assert len(lines) <= LINES
        assert max(map(len, lines)) <= min(width, COLUMNS)
        assert "%" in printed.out or "Score" in printed.out
        assert "…" not in printed.out or width == 60, "numbers and rows are cut only in the narrow terminal"
        if width > COLUMNS:
            assert [start for start in expected if not any(line.startswith(start) for line in lines)] == []
    full = medagent("grade", folder, "--full", *code).out
    assert "Data set: " in full
    assert "Versions: medagent " in full
    assert "95%" in full


FLAKY = """
from medagent import Agent, ModelError
class Flaky(Agent):
    async def play(self, task, prompt):
        if task.id == "task5_7":
            raise ModelError("timed out after 300 s")
        number = int(task.id.partition("_")[2]) % 10
        while number == 4:
            yield f"GET {self.context.base}Patient"
        yield "what?" if number == 3 else "FINISH([])"
"""


def test_an_owed_item_is_not_wrong_and_takes_no_row_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    file = tmp_path / "the-folder-of-my-research-group" / "flaky.py"
    file.parent.mkdir()
    file.write_text(FLAKY)
    ran = medagent("run", "--agent", f"{file}:Flaky", "--round", "flaky", "--quiet")
    graded = medagent("grade", "results/v2_flaky_Flaky")
    for printed in (ran, graded):
        lines = printed.out.splitlines()
        assert lines[0] == "MedAgentBench v2, synthetic patients · flaky.py:Flaky · text"
        assert len(lines) <= LINES
        assert max(map(len, lines)) <= COLUMNS
        rows = ("task1 ", "task9 ", "task10 ", "an order was due", "doing nothing was right")
        assert [row for row in rows if not any(line.startswith(row) for line in lines)] == []
        assert "Owed and not graded: 1\n  1 × model_error: timed out after 300 s (first: task5_7#1)" in printed.out
        assert "of 299; 92 patients)" in lines[1]
        wrong = printed.out.partition("Wrong: ")[2].partition("Synthetic")[0].replace("\n ", "")
        assert sum(int(part.split()[0]) for part in wrong.split(", ")) == 299 - int(lines[1].split("(")[1].split()[0])
    continuing = ran.out.partition("Continue: ")[2].partition("\nNext: ")[0]
    assert " \\\n" in continuing
    assert shlex.split(continuing.replace("\\\n", "")) == [
        "medagent", "run", "--round", "flaky", "--agent", f"{file.relative_to(tmp_path)}:Flaky",
    ]  # fmt: skip
    refused = medagent("run", "--agent", f"{file}:Flaky", "--round", "flaky", "--max-rounds", 4, "--quiet")
    assert "max-rounds 8 → 4" in refused.err
    assert "flaky.py:Flaky --max-rounds 8;" in refused.err, "what this command changes is stated"


def test_what_was_never_graded_has_neither_rows_nor_wrong_items() -> None:
    none = TableSection(lines=(TableLine(name="type1", n=0, counts={"right": 0}),))
    owed = [ItemOutcome(item="i", kind="infrastructure", status="model_error")]
    lines = summary(report(table=[none], items=owed, overall=None), [], [], COLUMNS)
    assert not [line for line in lines if line.startswith(("Wrong", "type1"))]


def report(**changes: object) -> Report:
    lines = tuple(TableLine(name=f"type{n}", n=10, value=0.5, counts={"right": 5}) for n in range(40))
    items = [ItemOutcome(item=f"i{n}", correct=False, kind=f"kind-{n % 8}") for n in range(20)]
    values: dict[str, object] = {
        "benchmark": "b",
        "folder": "results/b_r1_m",
        "data": DataRef(name="bench", note="not official"),
        "settings": {"model": "m"},
        "table": [TableSection(lines=lines)],
        "overall": TableLine(name="overall", n=400, value=0.5, interval=(0.451, 0.549), counts={"right": 200}),
        "items": items,
        "spent": Spent(calls=2, prompt=811_000, completion=1_200, cost=0.41),
        "started": "2026-01-01T00:00:00+00:00",
        "ended": "2026-01-01T00:06:00+00:00",
    }
    return Report.model_validate({**values, **changes})


def test_what_does_not_fit_is_counted() -> None:
    lines = summary(report(), [f"note {n}" for n in range(40)], [], COLUMNS)
    assert len(lines) == LINES
    assert sum(line.startswith("… and ") and line.endswith(" more: --full") for line in lines) == 2
    assert lines[:2] == ["bench · m", "Score 50.0% (200 of 400)   95% interval 45.1–54.9"]


def test_the_cost_the_kinds_and_the_baselines_are_one_line_each() -> None:
    lines = summary(report(baselines={"nop": 0.1, "blind": 0.6}), [], [], COLUMNS)
    assert "Doing nothing 10.0   blind 60.0: this run is below blind" in lines
    assert "Wrong: 3 kind 0, 3 kind 1, 3 kind 2, 3 kind 3, 2 kind 4, 2 kind 5, 4 other" in lines
    assert "Cost $0.4100, 812k tokens, 6 min." in lines
    assert "Not official." in lines
    assert any("this run is above blind" in line for line in summary(report(baselines={"blind": 0.2}), [], [], 78))


@pytest.mark.parametrize(
    ("score", "blind", "is_needless"), [(0.5, 0.5, False), (0.4, 0.5, False), (1.0, 0.975, False), (1.0, 1.0, True)]
)
def test_nobody_needs_a_chart_only_if_a_baseline_is_right_on_all_items(
    score: float, blind: float, is_needless: bool
) -> None:
    overall = TableLine(name="overall", n=40, value=score, counts={"right": round(40 * score)})
    settings = {"agent": "reference"}
    lines = summary(report(overall=overall, baselines={"blind": blind}, settings=settings), [], [], COLUMNS)
    assert any(line.startswith("Nobody needs a chart for these items") for line in lines) is is_needless
    assert any(line.startswith(f"Blind {100 * blind:.1f}: this run is ") for line in lines) is not is_needless


def test_notes_for_specialists_and_digests_need_full() -> None:
    notes = ["The server was away.", "Twelve items are missing.", f"judge prompt: sha256 {'0a' * 32}"]
    lines = summary(report(notes=notes, background=notes[1:2]), [], [], COLUMNS)
    assert [note for note in notes if note in lines] == notes[:1]


def test_wide_characters_are_aligned_and_long_names_cut() -> None:
    names = ("短", "长" * 40)
    lines = [TableLine(name=name, n=1, value=1.0) for name in names]
    rows = summary(report(table=[TableSection(lines=tuple(lines))], items=[]), [], [], 60)
    wide = [row for row in rows if row.startswith(names[0])] + [row for row in rows if row.startswith("长")]
    from rich.cells import cell_len

    assert len({cell_len(row) for row in wide}) == 1
    assert "…" in wide[1]


def test_a_pipe_gets_the_same_text(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    print_summary(report())
    assert capsys.readouterr().out.splitlines() == summary(report(), [], [], COLUMNS)


def test_a_run_that_was_not_graded_shows_no_score() -> None:
    """Its items may have scores although lines are owed, as in PromptCBLUE."""
    assert not any("Score" in line for line in summary(report(table=[]), [], [], COLUMNS))


def many(count: int) -> Report:
    """A report with so many groups, whose rates are not in order; the last group has no rate."""
    rates = [(place * 7 % count) / count for place in range(count - 1)]
    lines = [TableLine(name=f"measure {place}", n=10, value=rate) for place, rate in enumerate(rates)]
    table = (TableSection(lines=(*lines, TableLine(name="none", n=0))),)
    overall = TableLine(name="overall", n=10 * count, value=0.5)
    return Report(benchmark="b", folder="f", data=DataRef(name="Set"), table=table, overall=overall)


@pytest.mark.parametrize(("count", "shown"), [(19, 19), (20, 20), (21, 10), (61, 10)])
def test_a_table_of_many_groups_is_sorted_and_cut(count: int, shown: int) -> None:
    lines = [line for line in summary(many(count), [], [], 78) if line.startswith(("measure", "none", "…"))]
    named = [line for line in lines if not line.startswith("…")]
    assert len(named) == shown
    if shown == count:
        assert named[0].startswith("measure 0 ")
        assert named[-1].startswith("none")
        return
    assert lines[-1] == f"… and {count - shown} groups more: --full"
    rates = [float(line.split()[-1].rstrip("%")) for line in named]
    assert rates == sorted(rates, reverse=True)


def test_all_groups_are_shown_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    print_findings(many(61), full=True)
    names = [line.split()[:2] for line in capsys.readouterr().out.splitlines() if "measure" in line]
    assert len(names) == 60
    assert names[0] != ["measure", "0"]
