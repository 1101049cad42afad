"""Measures an HTML report: its size, its first paint, and the time of a filter, for 300 and for 3,000 episodes.

    python benchmarks/report.py [EPISODES …]

Each episode's transcript is about 20 kB, made from the reference agent's by lengthening or shortening. The browser's
numbers need playwright and a Chromium (see CONTRIBUTING, Browser); without them, only the size is printed.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import medagent
from medagent.benchmarks.medagentbench.benchmark import MedAgentBench
from medagent.engine.blocks import Block, ConversationBlock, TranscriptMessage
from medagent.engine.folder import Journals
from medagent.engine.results import GradedRun, GradedUnit
from medagent.engine.scores import SCORES, StoredScores
from medagent.reports.page.render import RunPage, render

CHARACTERS = 20_000
WORDS = ("potassium", "magnesium", "glucose", "patient", "order", "reading", "morning", "dose", "route", "clinic")


def main() -> None:
    sizes = [int(word) for word in sys.argv[1:]] or [300, 3000]
    with tempfile.TemporaryDirectory() as folder:
        report = medagent.run_sync("medagentbench", agent="reference", results_dir=Path(folder))
        place = Path(report.folder)
        benchmark = LongEpisodes()
        with Journals.of_folder(place, benchmark.journals) as journals:
            run = GradedRun(benchmark, place, journals, {}, StoredScores(place / SCORES))
            page = RunPage("enlarged", run.report, benchmark, run.scores, list(run.units()))
        for episodes in sizes:
            started = time.process_time()
            text = "".join(render([_enlarged(page, episodes)], {}))
            made = time.process_time() - started
            file = Path(folder) / f"{episodes}.html"
            file.write_text(text, encoding="utf-8")
            print(f"{episodes:>5} episodes: {len(text) / 1e6:.2f} MB, made in {made:.1f} s of CPU", flush=True)
            for name, figure in _measured(file):
                print(f"      {name}: {figure}", flush=True)


class LongEpisodes(MedAgentBench):
    """MedAgentBench, with transcripts of about the same length."""

    def blocks(self, item: Any, row: Any, score: Any) -> Sequence[Block]:
        return list(map(_as_long, super().blocks(item, row, score)))


def _enlarged(page: RunPage, episodes: int) -> RunPage:
    """A run of `episodes` episodes."""
    units: list[GradedUnit] = list(page.units)
    random.seed(0)
    made, reported = [], []
    for number in range(episodes):
        unit = units[number % len(units)]
        scored = replace(unit.scored, trial=number // len(units) + 1)
        correct = number % 7 != 0
        kind = "" if correct else ("wrong-value", "order-wrong")[number % 2]
        made.append(replace(unit, scored=scored))
        reported.append(replace(scored.outcome, correct=correct, kind=kind))
    report = page.report.model_copy(update={"items": tuple(reported)})
    return replace(page, report=report, units=made)


def _as_long(block: Any) -> Any:
    if not isinstance(block, ConversationBlock):
        return block
    missing = CHARACTERS - sum(len(message.text) for message in block.messages)
    filler = " ".join(f"{random.choice(WORDS)} {random.random():.4f}" for _ in range(max(missing, 0) // 15))
    return replace(block, messages=[*block.messages, TranscriptMessage("user", filler)])


def _measured(file: Path) -> Iterator[tuple[str, str]]:
    """First paint, when the page can be used, and how long filters take, by the browser's own clock."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with contextlib.suppress(ImportError):
        from playwright.sync_api import sync_playwright

        if program is None:
            yield "browser", "no Chromium is on this machine"
            return
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
            for name, values in _opened(browser, file).items():
                yield name, f"{sorted(values)[len(values) // 2]:.0f} ms (median of {len(values)})"
            browser.close()
        return
    yield "browser", "playwright is not installed"


def _opened(browser: Any, file: Path) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {}
    for _ in range(3):
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready]")
        page.wait_for_timeout(300)  # a paint is noted after it
        timings = {
            "first paint": "performance.getEntriesByName('first-contentful-paint')[0].startTime",
            "can be used": "performance.getEntriesByName('medagent-ready')[0].startTime",
            "filter by group": _TIMED % "for (const one of ['task5', ''])  { select('group', one); }",
            "filter by kind": _TIMED % "select('kind', 'wrong-value')",
            "first search (unpacks every message)": _SEARCHED % "potassium 0.12",
            "next search": _SEARCHED % "potassium 0.34",
            "open an item": _OPENED,
        }
        for name, script in timings.items():
            times.setdefault(name, []).append(float(page.evaluate(script)))
        page.close()
    return times


_TIMED = """() => { const select = (key, value) => { const box = document.querySelector(`[data-filter=${key}]`);
  box.value = value; box.dispatchEvent(new Event('change')); document.body.offsetHeight; };
  const begun = performance.now(); %s; return performance.now() - begun; }"""
_SEARCHED = """async () => { const begun = performance.now(), box = document.querySelector('#find');
  const before = document.querySelector('#count').textContent;
  box.value = '%s'; box.dispatchEvent(new Event('input'));
  while (document.querySelector('#count').dataset.text !== box.value) await new Promise((go) => setTimeout(go, 1));
  document.body.offsetHeight; return performance.now() - begun - 120; }"""
_OPENED = """async () => { const begun = performance.now(); location.hash = '#task5_2';
  while (document.querySelector('#item-title')?.textContent !== 'task5_2')
    await new Promise((go) => setTimeout(go, 1));
  document.body.offsetHeight; return performance.now() - begun; }"""


if __name__ == "__main__":
    main()
