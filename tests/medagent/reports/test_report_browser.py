"""The HTML report in a real browser: all benchmarks and comparisons, keys, filters, links, print, what axe finds."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import medagent
from tests.journal_lines import checked_line
from tests.medagent.reports.browser import Opened, opened, program, serious
from tests.medagent.reports.erring import INJECTION
from tests.shared_data import DATA, ROOT

ERRING = ROOT / "tests" / "medagent" / "reports" / "erring.py"


OVERLAPS = """[...document.querySelectorAll('svg')].flatMap((svg) => {
  const texts = [...svg.querySelectorAll('text')].map((one) => [one.textContent, one.getBoundingClientRect()]);
  return texts.flatMap(([a, r], at) => texts.slice(at + 1).filter(([, q]) =>
    r.left < q.right - 1 && q.left < r.right - 1 && r.top < q.bottom - 4 && q.top < r.bottom - 4).map(([b]) => [a, b]));
})"""
"""Pairs of texts of one chart that cover each other."""
WRAPPED = """[...document.querySelectorAll('#panels td.stateword, #panels td.num, #panels td.pair')].filter((one) => {
  const range = document.createRange();
  range.selectNodeContents(one);
  return new Set([...range.getClientRects()].map((rect) => Math.round(rect.bottom / 8))).size > 1;
}).map((one) => one.textContent)"""
"""Short cells of tables that need two lines."""
FAR = """
from medagent import Agent

class Far(Agent):
    def play(self, task, prompt):
        yield "FINISH([154])"
"""
RUNS = {
    "far": ["v2_err_Far"],
    "erring": ["v2_err_ErringAgent"],
    "medagentbench": ["v2_err_reference"],
    "promptcblue": ["promptcblue_old_m"],
    "simpleqa": ["simpleqa-husimpleqa_old_m"],
    "imapscore": ["imapscore_old_m"],
    "questions": ["fhir-agentbench_err_yes"],
    "lucky": ["v2_err_nop"],
    "compared": ["v2_err_nop", "v2_err_reference", "v2_err_ErringAgent"],
}


class Reports:
    """Reports of runs, each made when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getitem__(self, name: str) -> Path:
        file = self.folder / f"{name}.html"
        if not file.exists():
            with contextlib.chdir(self.folder):
                done = medagent("report", *(Path("results") / run for run in RUNS[name]), "-o", file.name)
            assert done.code == 0, done.err
        return file


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    """Finished folders of each benchmark, and three runs of which one has every kind of failure."""
    program()
    folder = tmp_path_factory.mktemp("reports")
    with contextlib.chdir(folder):
        with tarfile.open(fileobj=io.BytesIO((DATA / "finished" / "0.1.0.tar.xz").read_bytes()), mode="r:xz") as packed:
            packed.extractall(folder, filter="data")
        assert medagent("data", "allow", "items.jsonl", "test.json", "gold.json").code == 0  # another machine's runs
        ids = [f"{kind}_{number}" for kind in ("task1", "task4", "task5", "task9") for number in range(1, 14)]
        selected = ["--ids", ",".join(ids), "--quiet"]
        ended = medagent("run", "--round", "err", "--agent", f"{ERRING}:ErringAgent", "--trials", 2, *selected)
        assert ended.code == 2, ended.err
        Path("far.py").write_text(FAR)
        for agent in ("nop", "reference", "far.py:Far"):
            assert medagent("run", "--round", "err", "--agent", agent, *selected).code == 0
        questions = ["fhir-agentbench", "--agent", "yes", "--limit", 24]
        assert medagent("run", *questions, "--round", "err", "--quiet").code == 0
    return Reports(folder)


@pytest.fixture(scope="module")
def page(reports: Reports) -> Iterator[Opened]:
    with opened(viewport={"width": 1280, "height": 900}) as found:
        yield found


@pytest.mark.parametrize(
    ("name", "item", "shown"),
    [
        pytest.param("erring", "task5_1.2", "magnesium (MG) of S", marks=pytest.mark.long),
        pytest.param("promptcblue", "CMeEE-V2%232", "Gold against prediction", marks=pytest.mark.long),
        pytest.param("simpleqa", "H01%2Fhu", "strict-j", marks=pytest.mark.long),
        ("imapscore", "en-1", "response more general"),
        pytest.param("compared", "task5_3", "v2_err_reference", marks=pytest.mark.long),
    ],
)
def test_every_benchmark_opens_without_an_error_and_without_a_request(
    page: Opened, reports: Reports, name: str, item: str, shown: str
) -> None:
    page.said.clear()
    page.asked.clear()
    page.go(reports[name])
    assert page.page.locator("#panels svg, #panels table").count()
    assert page.rows()
    page.go(reports[name], item)
    assert shown in page.text("#item")
    assert page.said == []
    assert {url.partition("#")[0] for url in page.asked} <= {"about:blank", reports[name].as_uri()}


@pytest.mark.long
def test_filters_of_scores_and_of_several_runs(page: Opened, reports: Reports) -> None:
    page.go(reports["compared"])
    page.page.get_by_text("Show the items that flip").click()
    assert 0 < len(page.rows()) < 52
    page.go(reports["promptcblue"])
    page.page.locator("#sort").select_option("order of the data")
    assert page.rows()[:2] == ["CMeEE-V2#1", "CMeEE-V2#2"]
    page.page.locator("#sort").select_option("wrong or lowest first")
    assert page.page.locator("#items .rows .row").nth(1).inner_text().startswith("0.000")


def test_items_that_are_right_but_not_read(page: Opened, reports: Reports) -> None:
    page.go(reports["lucky"])
    assert "data read: 0 of 52" in page.text("#summary")
    assert "compared with blind: " in page.text("#summary")
    page.page.locator("[data-filter=outcome]").select_option("right without reading")
    lucky = page.rows()
    assert lucky
    assert "read nothing" in page.page.locator("#items .rows .row", has_text=lucky[0]).first.inner_text()
    page.go(reports["lucky"], lucky[0])
    assert page.text(".badge.grounds") == "data not read"
    assert "read nothing" in page.text("#item")


def test_filters_bars_and_search(page: Opened, reports: Reports) -> None:
    page.go(reports["erring"])
    tab = page.page
    every = page.text("#count")
    tab.locator(".bar", has_text="wrong value").click()
    assert set(tab.locator("#items .row span:nth-child(4)").all_inner_texts()[1:]) == {"wrong value"}
    tab.locator(".bar", has_text="wrong value").click()
    assert page.text("#count") == every
    tab.locator("[data-filter=group]").select_option("task9")
    tab.locator("[data-filter=outcome]").select_option("wrong")
    assert all(name.startswith("task9_") for name in page.rows())
    tab.locator("[data-filter=check]").select_option("posts")
    assert 0 < len(page.rows()) < 60
    tab.locator("#clear").click()
    tab.keyboard.press("/")
    tab.keyboard.type("PLEASE LOOK THAT UP, IT STANDS NOWHERE")
    tab.wait_for_selector("#count[data-text='please look that up, it stands nowhere']")
    assert page.text("#count").startswith("0 of")
    tab.locator("#find").fill("endpoint is on fire")
    tab.wait_for_selector("#count[data-text='endpoint is on fire']")
    assert {name.partition(".")[0].rpartition("_")[2] for name in page.rows()} == {"13"}


def test_items_are_grouped_by_kind_of_failure_with_a_typical_one_open(page: Opened, reports: Reports) -> None:
    page.go(reports["erring"])
    groups = page.page.locator(".kind-group")
    names = groups.locator("h3").all_inner_texts()
    counts = [int(name.rpartition(" ")[2]) for name in names]
    assert len(page.rows()) == len(names)
    assert sum(counts) == 104
    faults = [
        count
        for name, count in zip(names, counts, strict=True)
        if not name.startswith(("right", "not graded", "failed outside"))
    ]
    assert faults == sorted(faults, reverse=True)[: len(faults)]
    example = page.page.locator(".fault")
    assert example.inner_text().startswith(f"Commonest fault: {names[0].rpartition(' ')[0]} ({counts[0]} of ")
    assert example.locator("a").inner_text() == page.rows()[0]
    groups.first.get_by_role("button").click()
    assert groups.first.locator(".row").count() == counts[0]
    example.locator("a").click()
    page.until("#item-title", page.rows()[0])


def test_keys_links_and_the_way_back(page: Opened, reports: Reports) -> None:
    page.go(reports["erring"])
    keys = page.page.keyboard
    keys.press("j")
    keys.press("j")
    keys.press("Enter")
    page.page.wait_for_selector("#item-title")
    second = page.page.locator(".kind-group").first.locator(".row b").nth(1).inner_text()
    assert page.text("#item-title") == second.partition(".")[0]
    keys.press("k")
    page.until("#item-title", page.rows()[0])
    keys.press("Escape")
    assert page.page.locator("#item").is_hidden()
    page.page.evaluate("location.hash = '#task4_5.2'")
    page.until("#item-title", "task4_5.2")
    page.page.evaluate("location.hash = '#no such item'")
    page.until("#status", "There is no item no such item here.")


def test_the_head_says_what_was_measured_and_notes_the_rest(page: Opened, reports: Reports) -> None:
    page.go(reports["erring"])
    title = "MedAgentBench v2, synthetic patients · erring.py:ErringAgent · text"
    assert (page.page.title(), page.text("h1")) == (f"{title} · medagent", title)
    head = page.text("#summary .run")
    assert re.search(r"\d+ of \d+ right\s+95% interval .*\s+compared with blind: ", head)
    assert "digest" not in head
    page.page.get_by_text("Notes", exact=True).click()
    assert {"Protocol", "Folder", "Versions"} <= set(page.page.locator(".run dt").all_inner_texts())
    assert "digest" in page.text("#summary .run")


def test_wrong_items_are_first_and_a_filter_says_what_it_filters(page: Opened, reports: Reports) -> None:
    page.go(reports["erring"])
    outcomes = page.page.locator("#items [role=listitem] .row > span:first-child").all_inner_texts()
    assert outcomes == sorted(outcomes, key=["✗ wrong", "✓ right", "– not graded"].index)
    assert outcomes[0] == "✗ wrong"
    page.page.locator("[data-filter=group]").select_option("task9")
    page.page.locator(".bar", has_text="wrong value").click()
    assert page.text("#count").endswith(" items: task type task9 replace potassium; kind of failure wrong value")
    names = [page.page.locator(f"[data-filter={name}] option").first.inner_text() for name in ("outcome", "kind")]
    assert names == ["all outcomes", "all kinds of failure"]


def test_an_item_says_in_one_sentence_why_it_is_wrong_and_the_rest_on_request(page: Opened, reports: Reports) -> None:
    page.go(reports["erring"], "task5_2")
    assert page.text("#item .headline").split("\n")[:2] == ["task5_2", "task5 replace magnesium"]
    box = page.page.locator(".why-box")
    sentence, rest = box.inner_text().split("\n")[0], box.inner_text().split("\n")[1:]
    assert sentence.startswith("MedicationRequest")
    assert [line for line in rest if line] == ["Details"]
    box.get_by_text("Details").click()
    box.locator("dl").wait_for()
    assert "order wrong: placed the order with a wrong field" in box.inner_text()
    assert "last magnesium" in box.inner_text()


def test_an_answer_far_off_keeps_the_scale_of_the_readings(page: Opened, reports: Reports) -> None:
    page.go(reports["far"], "task5_12")
    chart = page.page.locator("svg.strip")
    assert "154 ↑ off scale" in (chart.text_content() or "")
    ticks = [float(text) for text in chart.locator(".axis + text").all_text_contents()]
    assert max(ticks) < 4


@pytest.mark.parametrize("width", [390, 768, 1280, 1920])
@pytest.mark.parametrize(
    "name",
    [
        "erring",
        "compared",
        *(pytest.param(name, marks=pytest.mark.long) for name in ("promptcblue", "simpleqa", "imapscore")),
    ],
)
def test_no_text_of_a_chart_is_over_another_or_wraps(page: Opened, reports: Reports, name: str, width: int) -> None:
    tab = page.page
    tab.set_viewport_size({"width": width, "height": 900})
    page.go(reports[name])
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.evaluate(OVERLAPS) == []
    assert tab.evaluate(WRAPPED) == []
    tab.set_viewport_size({"width": 1280, "height": 900})


@pytest.mark.parametrize("item", ["task5_3", "task5_12", "task9_9"])
def test_no_text_of_a_reading_chart_is_over_another(page: Opened, reports: Reports, item: str) -> None:
    page.page.set_viewport_size({"width": 390, "height": 900})
    page.go(reports["far"], item)
    assert page.page.locator("#item svg.strip text").count() > 4
    assert page.page.evaluate(OVERLAPS) == []
    page.page.set_viewport_size({"width": 1280, "height": 900})


def test_the_kind_beside_a_long_id_is_on_one_line(page: Opened, reports: Reports) -> None:
    page.go(reports["questions"])
    page.page.locator("[data-filter=kind]").select_option("nothing-found")
    page.page.evaluate("location.hash = '#careunits-6'")
    page.until("#item-title", "careunits-6")
    kinds = page.page.locator(".row .kind").filter(has_text="nothing found")
    assert kinds.count() > 10
    assert {round(kinds.nth(place).bounding_box()["height"]) for place in range(kinds.count())} <= set(range(12, 30))


def test_types_of_tasks_have_their_names(page: Opened, reports: Reports) -> None:
    page.go(reports["erring"])
    assert "task5 replace magnesium" in page.text("#panels")
    assert "task5 replace magnesium" in page.page.locator("[data-filter=group] option").all_inner_texts()
    assert "replace magnesium" in page.page.locator(".row .group").all_inner_texts()


@pytest.mark.long
def test_dark_print_and_a_phone(page: Opened, reports: Reports) -> None:
    tab = page.page
    page.go(reports["erring"], "task5_2")
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    light = tab.evaluate(paper)
    tab.emulate_media(color_scheme="dark")
    dark = tab.evaluate(paper)
    tab.emulate_media(color_scheme="light")
    for _ in range(2):
        tab.locator("#theme").click()
    assert (tab.evaluate(paper), tab.evaluate("document.documentElement.dataset.theme")) == (dark, "dark")
    assert dark != light
    tab.emulate_media(media="print")
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert tab.evaluate(paper) == "rgb(255, 255, 255)"
    assert "You work for a hospital" in page.text("#item")  # what was folded is printed
    assert tab.locator(".tools").is_hidden()
    tab.emulate_media(media="screen")
    tab.set_viewport_size({"width": 390, "height": 844})
    for item in ("", "task5_2", "task9_4"):
        page.go(reports["erring"], item)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    tab.set_viewport_size({"width": 1280, "height": 900})


@pytest.mark.parametrize(
    ("name", "item"),
    [
        ("erring", "task5_3"),
        pytest.param("promptcblue", "CMeEE-V2%232", marks=pytest.mark.long),
        pytest.param("simpleqa", "H01%2Fhu", marks=pytest.mark.long),
        pytest.param("imapscore", "en-3", marks=pytest.mark.long),
        pytest.param("compared", "task5_3", marks=pytest.mark.long),
    ],
)
def test_axe_finds_nothing_serious(page: Opened, reports: Reports, name: str, item: str) -> None:
    page.go(reports[name])
    assert serious(page) == []
    page.go(reports[name], item)
    page.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.build?.(); one.open = true; })")
    assert serious(page) == []
    page.page.emulate_media(color_scheme="dark")
    assert serious(page) == []
    page.page.emulate_media(color_scheme="light")


def test_markup_in_what_a_model_said_is_text_in_every_view(page: Opened, reports: Reports) -> None:
    tab = page.page
    page.said.clear()
    for item in ("", "task1_7", "task4_11", "task1_10", "task9_3"):
        page.go(reports["erring"], item)
        tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.build?.(); one.open = true; })")
        assert tab.locator("main img, main script, main iframe").count() == 0
        assert not tab.title().startswith("owned")
    assert "<img src=x onerror=" in page.text("#item")
    assert page.said == []


@pytest.mark.parametrize(
    ("run", "file", "before", "item"),
    [
        pytest.param("promptcblue_old_m", "episodes.jsonl", '"answer":"', "CMeEE-V2%231", marks=pytest.mark.long),
        ("simpleqa-husimpleqa_old_m", "judgements.jsonl", '"reply":"', "H01%2Fhu"),
    ],
)
def test_markup_in_the_other_benchmarks_texts_is_text(
    page: Opened, reports: Reports, tmp_path: Path, run: str, file: str, before: str, item: str
) -> None:
    folder = shutil.copytree(reports.folder / "results" / run, tmp_path / run)
    text = (folder / file).read_text()
    assert before in text
    text = text.replace(before, before + json.dumps(INJECTION)[1:-1])
    (folder / file).write_text("".join(f"{checked_line(line)}\n" for line in text.splitlines()))
    (folder / "scores.jsonl").unlink()
    with contextlib.chdir(reports.folder):  # where the run's own files are named from
        done = medagent("report", folder, "-o", tmp_path / "report.html")
    assert done.code == 0, done.err
    tab = page.page
    page.said.clear()
    for place in ("", item):
        page.go(tmp_path / "report.html", place)
        tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.build?.(); one.open = true; })")
        assert tab.locator("main img, main script, main iframe").count() == 0
        assert not tab.title().startswith("owned")
    assert "<img src=x onerror=" in page.text("#item")
    assert page.said == []
