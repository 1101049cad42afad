"""The blocks of a report page for the whole run."""

from __future__ import annotations

from collections.abc import Iterator

from medagent.benchmarks.clinical.metrics import BASELINE_WORDS, BRANCHES
from medagent.benchmarks.clinical.sets import TaskSet
from medagent.benchmarks.medagentbench._metrics import published_of
from medagent.benchmarks.medagentbench.tasks.dataset import is_bundled
from medagent.engine.blocks import Block, DotsBlock
from medagent.engine.report import Report
from medagent.reports.published import published_sections
from medagent.reports.tables import line_words
from refsol.clinical.floor import BASELINES
from refsol.stats import wilson


def run_panels(report: Report, dataset: TaskSet) -> Iterator[Block]:
    """The rates of a run compared with others, and by what was right to do."""
    if not report.items:
        return
    lines = {line.name: line for section in report.table for line in section.lines}
    overall = report.overall or lines["overall"]
    first = [overall.dot("this run")]
    first += [lines[BASELINE_WORDS[name]].dot(line_words(name)) for name in BASELINES if BASELINE_WORDS[name] in lines]
    if is_bundled(dataset):  # only here is the reference agent known to solve all tasks
        n = len({item.item for item in report.items if item.correct is not None})
        first.append(("reference (solves all)", n, 1.0, *_ends(n, n)))
    for section in published_sections(published_of(dataset)):
        first += [
            (f"{line.name} (published)", line.n, line.value, *_ends(round(line.n * (line.value or 0)), line.n))
            for line in section.lines
        ]
    yield DotsBlock("Success rate, compared with others", first)
    branches = [lines[words].dot(words) for words in BRANCHES.values() if words in lines and lines[words].n]
    if branches:
        yield DotsBlock("By what was right to do", branches)


def _ends(right: int, n: int) -> tuple[float | None, float | None]:
    bounds = wilson(right, n)
    return (bounds.low, bounds.high) if n else (None, None)
