"""A run whose episodes are started and played by clients, one by one.

It has a run folder with settings and a journal like other runs, so `medagent grade`, `show`, `report` and `compare`
read it. It has no planned number of episodes, so nothing is owed. Results and grades are written when it ends, and can
be computed from the journal at any time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from medagent.core.clock import wall_clock
from medagent.core.named_paths import remember_options
from medagent.core.options import OptionField, options
from medagent.core.waiting import blocking
from medagent.engine.benchmark import Say
from medagent.engine.folder import Journals, Run, RunFolder
from medagent.engine.pairs import metrics_of
from medagent.engine.patient_data import owner_only
from medagent.engine.plan import JOURNAL, Plan
from medagent.engine.report import write_report
from medagent.engine.results import Graded, Standing, compose
from medagent.engine.scores import SCORES, Scoring, StoredScores
from medagent.fhir_episodes.benchmark import FhirBenchmark
from medagent.fhir_episodes.episode import EpisodeRow
from medagent.fhir_episodes.episodes import EpisodeSource
from medagent.fhir_episodes.settings import FhirSettings, own_options

_NOBODY = "medagent.agents.base:Agent"
"""The agent in the plan; it never acts, because the clients do."""
_OPTIONS = frozenset(
    ("ehr", "fhir", "max_rounds", "writes", "round", "overwrite", "fhir_header", "ca_file", "results_dir")
)
"""The options of every run that apply when clients act."""


def played_options(model: type[FhirSettings]) -> Iterator[OptionField]:
    """The options of this run: those that select a benchmark's tasks, and those that apply when clients act."""
    names = _OPTIONS.union(own_options(model))
    return (option for option in options(model) if option.name in names)


def played_source(benchmark: FhirBenchmark[Any], settings: FhirSettings, who: str) -> EpisodeSource:
    """The source of the episodes of such a run."""
    return EpisodeSource(benchmark, settings.model_copy(update={"protocol": "tools", "loop": None}))


def played_folder(benchmark: FhirBenchmark[Any], settings: FhirSettings, who: str) -> Path:
    """The folder of such a run. Raises UserError for tasks that cannot be read."""
    return settings.run_folder(benchmark.folder_name(settings), who)


class PlayedRun:
    """The folder of such a run, open. Use `open`, as a context manager."""

    def __init__(self, benchmark: FhirBenchmark[Any], plan: Plan, command: str) -> None:
        self._benchmark = benchmark
        self._plan = plan
        self._command = command
        self._stack = ExitStack()
        self._trials: Counter[str] = Counter()

    @classmethod
    async def open(
        cls, benchmark: FhirBenchmark[Any], settings: FhirSettings, who: str, command: str, say: Say
    ) -> Self:
        """The run of `who`, which acts by tools, in the folder that settings name. Raises UserError."""
        folder = played_folder(benchmark, settings, who)
        plan = await benchmark.plan(settings.model_copy(update={"agent": _NOBODY}), say)
        for note in plan.notes:
            say(note)
        protocol = benchmark.session_protocol(settings, "tools")
        decides = {
            **plan.decides,
            "agent": who,
            "agent-digest": None,
            "protocol": "tools",
            "loop": None,
            "prompts-digest": protocol.digest,
            "tools-digest": protocol.tools_digest,
        }
        return cls(benchmark, replace(plan, decides=decides, folder=folder), command)

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self._plan.folder

    def take_trial(self, task_id: str) -> int:
        """The trial number of a task's next episode: the first without a row, or with an owed one."""
        self._trials[task_id] += 1
        while not self._journal.is_owed(f"{task_id}#{self._trials[task_id]}"):
            self._trials[task_id] += 1
        return self._trials[task_id]

    async def keep(self, row: EpisodeRow) -> None:
        """Write the row of an ended episode to disk. Raises UserError."""
        row.timestamp = wall_clock()
        await self._journal.append(row)

    def __enter__(self) -> Self:
        plan, settings = self._plan, self._plan.settings
        remember_options(settings)
        self._stack.enter_context(owner_only(plan.owner_only))
        self._folder = self._stack.enter_context(
            RunFolder(
                plan.folder,
                self._command,
                plan.decides,
                about={"benchmark": self._benchmark.name, "data": plan.data.model_dump()},
                places=settings.places(),
                options=played_options(self._benchmark.Settings),
                overwrite=settings.overwrite,
                reuse=settings.reuse,
            )
        )
        self._journals = self._stack.enter_context(
            Journals(plan.folder, self._benchmark.journals, first=self._folder.journal)
        )
        self._journal = self._journals[JOURNAL]
        return self

    def __exit__(self, *_: object) -> None:
        with self._stack:
            if not any(True for _ in self._journal.units):
                return
            items = {item.id: item for item in self._plan.items}
            run, standing = Run(self.path, self._journals), Standing(list(self._journal.owed()), command=self._command)
            stored = StoredScores(self.path / SCORES, writable=True)
            with self._benchmark.grader(self._plan.settings, self._benchmark.rule_sets[0]) as grader:
                scoring: Scoring[EpisodeRow] = Scoring(items, grader, self._journal, stored)
                scores = blocking(scoring.of_units(self._journal.units))
                files = self._benchmark.write(run, scores)
                graded = Graded(
                    scores, metrics_of(grader, scores), grader.rules, grader.rules_version, grader.digests, files
                )
            write_report(self.path, compose(self._benchmark, self.path, graded, self._journals, standing))
