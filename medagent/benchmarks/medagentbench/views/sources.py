"""Where an HTML report's episodes come from: a run's folder, finished or not, or a results file that anybody made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fhir_server.synthetic.bundled import DIGEST
from medagent.benchmarks.medagentbench.episode import EpisodeRow
from medagent.benchmarks.medagentbench.facts import embedded_facts
from medagent.benchmarks.medagentbench.regrade import regraded_file
from medagent.benchmarks.medagentbench.results import grading
from medagent.benchmarks.medagentbench.results.folder import results_of
from medagent.benchmarks.medagentbench.results.paths import results_file, results_path
from medagent.benchmarks.medagentbench.results.write import recorded
from medagent.benchmarks.medagentbench.tasks.dataset import Dataset
from medagent.benchmarks.medagentbench.views.details import Graded, Played, details
from medagent.benchmarks.medagentbench.wanted import Wanted
from medagent.core.errors import UserError
from medagent.engine.folder import read_run
from medagent.engine.journals import Run
from medagent.engine.report import Report
from medagent.reports.page.blocks import Details, Message
from refsol.medagentbench import RULE_SETS, Facts, Grader, grade_file, read_recorded

_OTHERS = [name for name in RULE_SETS if name != "official"]


def run_details(run: Run, wanted: Wanted) -> Details:
    """What a page shows of a run's folder; a run that is going on is graded as far as it is.

    Raises UserError where its tasks or facts are not there and `wanted` names none.
    """
    rows = list(run.rows(EpisodeRow))
    with results_of(run, wanted.tasks) as (folder, dataset):
        facts = _facts(run, dataset, wanted)
        base = wanted.base or grading.shown_base(run.path / "results.json")
        grader = Grader(grading.items(dataset), facts, base=base, also=_OTHERS, constants=dataset.constants)
        reports = [
            grader.file(file, {row.task_id: recorded(row) for row in rows if row.trial == trial})
            for trial in range(1, max((row.trial for row in rows), default=0) + 1)
            if (file := results_path(folder, trial)).is_file()
        ]
    played = {(row.task_id, row.trial): Played.of_row(row) for row in rows}
    executed = run.settings.get("writes") == "execute"
    every = _hospital() if run.settings.get("ehr-digest") == DIGEST else facts
    return details(Graded(dataset, reports, played, every, executed))


def file_details(path: Path, wanted: Wanted) -> tuple[Report, Details]:
    """A results file's report, and what a page shows of it. Raises UserError, InputError or FactsError."""
    report = regraded_file(path, wanted)
    results = results_file(path)
    dataset = grading.task_set(results, wanted.tasks, wanted.dataset)
    facts = grading.facts(dataset, fhir=wanted.fhir, ehr=wanted.ehr, key=wanted.key)
    base = wanted.base or grading.shown_base(results)
    graded = grade_file(results, grading.items(dataset), facts, base=base, also=_OTHERS, constants=dataset.constants)
    bundled = dataset.bundled and (wanted.fhir, wanted.ehr, wanted.key) == (None, None, None)
    every = _hospital() if bundled else facts
    return report, details(Graded(dataset, [graded], _recorded(results, dataset), every))


def _recorded(results: Path, dataset: Dataset) -> Mapping[tuple[str, int], Played]:
    """What a results file keeps of each episode: its posts, or in other tools' forms the whole conversation."""
    recorded = read_recorded(results, grading.items(dataset))
    played: dict[tuple[str, int], Played] = {}
    for item in recorded.items:
        history = [{"role": one.role, "content": one.content} for one in item.post_history]
        episode = recorded.episodes.get(item.task_id)
        transcript = episode.transcript if episode is not None else ()
        said = [Message(one.role, one.content) for one in transcript or item.post_history]
        played.setdefault((item.task_id, 1), Played(item.answer, said, history, whole=bool(transcript)))
    return played


def _facts(run: Run, dataset: Dataset, wanted: Wanted) -> Facts:
    """What verdicts rest on: the place that is named, else the run's own patients, else the data set's key."""
    if any(place is not None for place in (wanted.fhir, wanted.ehr, wanted.key)):
        return grading.facts(dataset, fhir=wanted.fhir, ehr=wanted.ehr, key=wanted.key)
    named = read_run(run.path).get("places", {}).get("ehr")
    if not isinstance(named, str):
        return grading.facts(dataset, fhir=None, ehr=None, key=None)
    if not Path(named).is_file():
        raise UserError(f"{named}: the patients of {run.path} are not there any more; name them with --ehr")
    from medagent.fhir_data.embedded import imported_file

    return embedded_facts(imported_file(Path(named)).path)


def _hospital() -> Facts:
    """Every reading of the bundled hospital's patients; a data set's key holds those that decide and no others."""
    from medagent.fhir_data.embedded import bundled_file

    return embedded_facts(bundled_file().path)
