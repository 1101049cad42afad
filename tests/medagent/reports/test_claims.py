"""What a score claims: the mean of all trials, intervals that agree with their tests, packs of whole runs."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import pytest

from tests.command import medagent
from tests.medagent.reports.coins import BENCHMARK, coins
from tests.medagent.reports.test_leaderboard import rows
from tests.medagent.reports.test_report import unpacked

TIRED = """
from medagent import Agent, Move
from medagent.engine import Spent

class Says:
    def __init__(self, text):
        self.text, self.spent = text, Spent()

    async def next(self, observation):
        return Move(self.text)

class Tired(Agent):
    def start(self, task, *, key, seed):
        return Says("FINISH([])" if key.endswith("#1") else "I am tired")
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def ends(text: str) -> tuple[float, float]:
    """The interval in a line."""
    low, high = re.search(r"95% (?:interval )?([-−+]?[\d.]+)(?: to |–)([-−+]?[\d.]+)", text).groups()  # type: ignore[union-attr]  # the text matches, or the test fails
    return float(low.replace("−", "-")), float(high.replace("−", "-"))


@pytest.mark.parametrize("gained", [3, 4, 5, 6])
def test_the_interval_excludes_zero_if_and_only_if_p_is_below_005(gained: int) -> None:
    first, second = coins("20-39", label="a"), coins(f"20-{39 + gained}", label="b")
    (line,) = [row for row in medagent("compare", first, second, *BENCHMARK).out.splitlines() if "B − A" in row]
    low, high = ends(line)
    p = float(line.partition("; p = ")[2].partition(" ")[0])
    assert line.endswith("(paired score test)")
    assert low < high
    assert (low > 0) == (p < 0.05)
    stored = json.loads(medagent("compare", first, second, "--json", *BENCHMARK).out)
    assert (stored["interval"]["low"] > 0) == (stored["p"] < 0.05)


def test_shares_of_trials_have_a_p_that_fits_their_interval() -> None:
    first, second = coins("20-39", trials=3, label="a"), coins("20-44", "1,2", trials=3, label="b")
    stored = json.loads(medagent("compare", first, second, "--json", *BENCHMARK).out)
    assert stored["means"] == pytest.approx([1 / 3, 25 / 60 * 2 / 3])
    assert (stored["interval"]["low"] > 0 or stored["interval"]["high"] < 0) == (stored["p"] < 0.05)
    for run in stored["trials"]:
        for name in ("pass_1", "pass_at_k", "pass_hat_k"):
            assert run[f"{name}_interval"]["low"] <= run[name] <= run[f"{name}_interval"]["high"]


def test_several_runs_show_the_p_of_the_interval_and_the_adjusted_one() -> None:
    folders = [coins(right, label=label) for label, right in (("a", "20-39"), ("b", "20-44"), ("c", "20-43"))]
    out = medagent("compare", *folders, *BENCHMARK).out
    assert out.splitlines()[2].split()[-4:] == ["p", "p", "by", "Holm"]
    text = medagent("compare", *folders, "--markdown", *BENCHMARK).out
    for line in (row for row in text.splitlines() if row.startswith("**")):
        stated = re.search(r"p = ([\d.]+), ([\d.]+) by Holm over 2 runs", line)
        assert stated is not None, line
        unadjusted, adjusted = map(float, stated.groups())
        assert (ends(line)[0] > 0) == (unadjusted < 0.05)
        assert adjusted >= unadjusted


def test_power_plans_for_the_test_that_compare_prints() -> None:
    """Eight of 40 items differ: what `power` calls noise has a p above 0.05, anything else one below."""
    noise = float(re.search(r"under ([\d.]+) points", medagent("power", 40).out).group(1))  # type: ignore[union-attr]  # the text matches, or the test fails
    below = []
    for up in range(5, 9):
        lost = "" if up == 8 else f",{up}-7"
        first, second = (
            coins(f"20-39{lost}", label=f"a{up}", size=4),
            coins(f"20-39,0-{up - 1}", label=f"b{up}", size=4),
        )
        stored = json.loads(medagent("compare", first, second, "--json", *BENCHMARK).out)
        assert (len(stored["gained"]), len(stored["lost"])) == (up, 8 - up)
        assert (100 * stored["difference"] < noise) == (stored["p"] >= 0.05), up
        below.append(stored["p"] < 0.05)
    assert below == [False, False, True, True]


@pytest.mark.parametrize("benchmark", ["medagentbench", pytest.param("psb-300", marks=pytest.mark.long)])
def test_the_headline_is_the_mean_of_all_trials_everywhere(benchmark: str) -> None:
    """An agent that does nothing in the first of three trials, which is right at times, and fails in the others."""
    Path("tired.py").write_text(TIRED)
    options = ["--agent", "tired.py:Tired", "--per-type", 6]
    options += ["--unfinished", "wrong"] if benchmark == "psb-300" else []
    ran = medagent("run", benchmark, *options, "--trials", 3, "--quiet", "--json")
    report = json.loads(ran.out)
    items = report["items"]
    first = [item["correct"] for item in items if item["trial"] == 1]
    mean = sum(item["correct"] for item in items) / len(items)
    assert mean < sum(first) / len(first)
    overall = report["overall"]
    assert overall["value"] == pytest.approx(mean)
    assert overall["interval"][0] < mean < overall["interval"][1]
    folder = Path(report["folder"])
    graded = json.loads(medagent("grade", folder, "--json").out)
    assert (graded["overall"].get("value") or graded["overall"]["rate"]) == pytest.approx(mean)
    assert len(graded["items"]) == len(items)
    assert f"{100 * mean:.1f}%" in medagent("grade", folder).out
    (row,) = rows(medagent("leaderboard", folder).out)
    assert row["rate"] == f"{100 * mean:.1f}%"
    medagent("report", folder, "-o", "page.html")
    assert unpacked(Path("page.html"))[0]["runs"][0]["value"] == pytest.approx(mean)
    stored = json.loads(medagent("compare", folder, folder, "--json").out)
    assert stored["means"] == pytest.approx([mean, mean])


def test_a_pack_holds_a_whole_run_or_says_that_it_does_not() -> None:
    assert medagent("run", "--agent", "nop", "--types", "task2", "--version", "v1", "--quiet").code == 0
    run = Path("results/v1_r1_nop")
    refused = medagent("submit", "pack", run)
    assert (refused.code, refused.err.count("\n"), Path("results/v1_r1_nop.zip").exists()) == (1, 1, False)
    assert "the run is not complete: " in refused.err
    assert "(90 such episodes)" in refused.err
    assert medagent("run", "--agent", "nop", "--limit", 99, "--version", "v1", "--round", "r2", "--quiet").code == 0
    assert "(1 such episode)" in medagent("submit", "pack", Path("results/v1_r2_nop")).err
    assert "--partial" in refused.err
    assert medagent("submit", "pack", run, "--partial").code == 0
    pack = run.with_suffix(".zip")
    checked = medagent("submit", "check", pack)
    assert checked.code == 0, checked.out
    assert "could not be checked: 90 episodes: the pack is of a part" in checked.out
    (row,) = rows(medagent("leaderboard", pack).out)
    assert (row["reason"], "place" in row) == ("10 of 100 items", False)
    with zipfile.ZipFile(pack) as archive:
        assert json.loads(archive.read("pack.json"))["partial"] is True
