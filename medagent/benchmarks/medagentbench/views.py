"""The blocks of a report page: for an episode (of a run or of a results file), and for the whole run."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from medagent.benchmarks.medagentbench._figures import BRANCHES, published_of
from medagent.benchmarks.medagentbench.data import TaskItem, dataset_of, open_facts
from medagent.benchmarks.medagentbench.settings import MedAgentBenchSettings
from medagent.benchmarks.medagentbench.tasks.dataset import Dataset
from medagent.engine.blocks import Block, DotsBlock
from medagent.engine.report import Report
from medagent.fhir_data.facts import embedded_facts
from medagent.fhir_episodes.views import Shown
from medagent.reports.published import published_sections
from refsol.clinical.twins import changed
from refsol.medagentbench import Source, deciding
from refsol.stats import wilson


def shown(item: TaskItem) -> Shown | None:
    """The picture of a task. None if no test decides it."""
    facts, constants = changed(_readings(item.source), item.stored.change), item.dataset.constants
    test = deciding(item.stored.model_copy(update={"change": ()}).model_dump(), facts, constants)
    return None if test is None else Shown(test, item.stored.eval_MRN or "", constants.now, facts)


def run_panels(report: Report, dataset: Dataset) -> Iterator[Block]:
    """The rates of a run compared with others, and by what was right to do."""
    if not report.items:
        return
    lines = {line.name: line for section in report.table for line in section.lines}
    overall = report.overall or lines["overall"]
    first = [overall.dot("this run")]
    first += [
        line.dot(other.removeprefix("baseline ")) for other, line in lines.items() if other.startswith("baseline ")
    ]
    if dataset.bundled:  # only here is the reference agent known to solve all tasks
        n = len({item.item for item in report.items if item.correct is not None})
        first.append(("reference (solves all)", n, 1.0, *_ends(n, n)))
    for section in published_sections(published_of(dataset)):
        first += [
            (f"{one.name} (published)", one.n, one.value, *_ends(round(one.n * (one.value or 0)), one.n))
            for one in section.lines
        ]
    yield DotsBlock("Success rate, compared with others", first)
    branches = [lines[words].dot(words) for words in BRANCHES.values() if words in lines and lines[words].n]
    if branches:
        yield DotsBlock("By what was right to do", branches)


@lru_cache(maxsize=4)
def _readings(source: MedAgentBenchSettings) -> Source:
    """A source of all readings of the patients. An answer key would have only the deciding ones."""
    dataset = dataset_of(source)
    if source.fhir or source.ehr or not dataset.bundled:
        return open_facts(source, dataset).facts
    from medagent.fhir_data.embedded import bundled_file

    return embedded_facts(bundled_file().path)


def _ends(right: int, n: int) -> tuple[float | None, float | None]:
    bounds = wilson(right, n)
    return (bounds.low, bounds.high) if n else (None, None)
