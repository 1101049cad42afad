"""Grading results files, whoever made them: the task set and the facts are worked out, then refsol grades."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from medagent.benchmarks.medagentbench.episode import EpisodeRow
from medagent.benchmarks.medagentbench.findings import EpisodeCounts, GradedTrials, findings
from medagent.benchmarks.medagentbench.inventory import patients_file
from medagent.benchmarks.medagentbench.results import grading
from medagent.benchmarks.medagentbench.results.official_grader import OfficialData, official_verdicts
from medagent.benchmarks.medagentbench.results.official_grades import OfficialGrades
from medagent.benchmarks.medagentbench.results.paths import results_file, results_files
from medagent.benchmarks.medagentbench.results.write import recorded
from medagent.benchmarks.medagentbench.tasks.dataset import Dataset
from medagent.benchmarks.medagentbench.wanted import Wanted
from medagent.core.errors import UserError
from medagent.core.options import checked
from medagent.core.versions import versions
from medagent.engine.files import file_digest
from medagent.engine.folder import read_run
from medagent.engine.journal import Journal
from medagent.engine.plan import JOURNAL
from medagent.engine.report import Report
from medagent.engine.run import Findings
from refsol.medagentbench import RULE_SETS, Grader, RecordedEpisode, read_recorded, rule_name


def wanted_of(options: Mapping[str, Any]) -> Wanted:
    """How to grade, as a call gives it; what is None is left out. Raises UserError for an option that is off."""
    return checked(Wanted, {name: value for name, value in options.items() if value is not None})


def regrade(path: Path, wanted: Wanted) -> tuple[Findings, Dataset]:
    """Grade the results files of a run's folder, one a trial, or a single file; nothing is written.

    Raises UserError, InputError or FactsError.
    """
    rule = rule_name(wanted.rules)
    files = results_files(path)
    others = [name for name in RULE_SETS if wanted.side_by_side and name != rule]
    task_set = grading.task_set(files[0], wanted.tasks, wanted.dataset)
    if wanted.fhir is None and wanted.ehr is None and wanted.key is None:
        grading.check_patients(files[0], task_set)
    facts = grading.facts(task_set, fhir=wanted.fhir, ehr=wanted.ehr, key=wanted.key)
    base = wanted.base or grading.shown_base(files[0])
    tasks = grading.items(task_set)
    grader = Grader(tasks, facts, base=base, rules=rule, also=others, constants=task_set.constants)
    graded = GradedTrials(_counts(path), whole=True)
    with closing(_Episodes(path)) as episodes:
        for trial, file in enumerate(files, 1):
            graded.add(grader.file(file, episodes.of_trial(trial, graded.conduct)))
    official = _official(wanted, task_set, files, base) if wanted.official else None
    return findings(graded, task_set, official=official), task_set


def regraded_file(path: Path, wanted: Wanted) -> Report:
    """The report of a results file that stands alone, or of a folder without a journal."""
    results = results_file(path)
    found, task_set = regrade(path, wanted)
    run = read_run(results.parent) if results.with_name("run.json").is_file() else {}
    return Report(
        benchmark="medagentbench",
        folder=str(results),
        data=task_set.ref,
        settings=run.get("settings", {}),
        versions=run.get("versions", versions()),
        rule_set=found.rule_set,
        measure=found.measure,
        figure=found.figure,
        count=found.count,
        table=tuple(found.table),
        overall=found.overall,
        items=tuple(found.items),
        notes=tuple(found.notes),
        ungraded=found.ungraded,
        **found.details,
    )


class _Episodes:
    """The rows of a run, one trial's at a time. What lies beside a single file is found by refsol, but checked here,
    since refsol knows no checksums. Raises UserError for a damaged journal.
    """

    def __init__(self, path: Path) -> None:
        folder = path if path.is_dir() else path.parent
        kept = (folder / JOURNAL).is_file() and (folder / "run.json").is_file()
        self._journal = Journal(folder / JOURNAL, EpisodeRow, writable=False) if kept else None
        self._whole = path.is_dir()

    def of_trial(self, trial: int, conduct: EpisodeCounts) -> dict[str, RecordedEpisode] | None:
        """One trial's episodes by task, counted on the way; None where refsol looks for them."""
        if self._journal is None or not self._whole:
            return None
        rows = self._journal.rows(unit for unit in self._journal.units if unit.endswith(f"#{trial}"))
        found = {}
        for row in rows:
            conduct.add(row)
            found[row.task_id] = recorded(row)
        return found

    def close(self) -> None:
        """Close the journal."""
        if self._journal is not None:
            self._journal.close()


def _counts(path: Path) -> EpisodeCounts:
    """What is to be counted of a run's folder; of a file alone nothing is known."""
    if not (path / JOURNAL).is_file() or not (path / "run.json").is_file():
        return EpisodeCounts()
    settings = read_run(path)["settings"]
    return EpisodeCounts(strip_thinking=settings.get("strip-thinking") is True, max_tokens=settings.get("max-tokens"))


def _official(wanted: Wanted, dataset: Dataset, files: Sequence[Path], base: str) -> OfficialGrades:
    """What the user's copy of the official grader says of the same files. Raises UserError."""
    assert wanted.official is not None
    data = _official_data(wanted, dataset)
    tasks = {task["id"]: task for task in grading.items(dataset)}
    verdicts = []
    for file in files:
        items = [item for item in read_recorded(file, list(tasks.values())).items if item.task_id in tasks]
        first = {item.task_id: item for item in reversed(items)}
        said = official_verdicts(
            wanted.official, [(tasks[task_id], item) for task_id, item in first.items()], data, base
        )
        verdicts.append(dict(zip(first, said, strict=True)))
    return OfficialGrades(wanted.official, file_digest(wanted.official), verdicts)


def _official_data(wanted: Wanted, dataset: Dataset) -> OfficialData:
    from medagent.benchmarks.medagentbench.settings import server_headers
    from medagent.fhir_data.embedded import imported_file

    if wanted.fhir is not None:
        return OfficialData(url=wanted.fhir, headers=server_headers([]))
    if wanted.ehr is not None:
        return OfficialData(imported_file(wanted.ehr).path)
    if (dataset.hospital or dataset.bundled) and wanted.key is None:
        return OfficialData(patients_file(dataset).path)
    raise UserError("--official asks a FHIR server, not a key: name the patients by --ehr FILE or --fhir URL")
