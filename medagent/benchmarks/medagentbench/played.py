"""A run whose episodes are played from outside, one by one, as their clients please.

It has the folder, the settings and the journal of every run, so `medagent grade`, `show`, `report` and `compare` read
it; what it owes nobody can say, as nobody has asked for a number of episodes. Results and grades are written when it
ends, and can be made of the journal at any time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from medagent.benchmarks.medagentbench.agents.tools import Toolbox
from medagent.benchmarks.medagentbench.benchmark import MedAgentBench
from medagent.benchmarks.medagentbench.episode import EpisodeRow
from medagent.benchmarks.medagentbench.episodes import EpisodeOptions
from medagent.benchmarks.medagentbench.plan import GradingContext, make_plan
from medagent.benchmarks.medagentbench.prompts.protocol import load_protocol
from medagent.benchmarks.medagentbench.settings import MedAgentBenchSettings
from medagent.benchmarks.medagentbench.tasks.dataset import Dataset
from medagent.core.clock import wall_clock
from medagent.engine.folder import RunFolder
from medagent.engine.journals import Journals, Run
from medagent.engine.plan import JOURNAL, Plan
from medagent.engine.run import Say, Standing, compose, keep
from medagent.models.base import Tool

PLAYED_OPTIONS = (
    "version",
    "dataset",
    "tasks_file",
    "ehr",
    "fhir",
    "max_rounds",
    "writes",
    "round",
    "results_dir",
    "overwrite",
)
"""The settings of a run that mean something where clients say who acts, and what."""


class PlayedRun:
    """The folder of such a run, open. Use `open`, as a context manager."""

    def __init__(self, plan: Plan, command: str) -> None:
        self._plan, self._command = plan, command
        self._benchmark = MedAgentBench()
        self._stack = ExitStack()
        self._trials: Counter[str] = Counter()

    @classmethod
    async def open(cls, settings: MedAgentBenchSettings, who: str, command: str, say: Say) -> Self:
        """The run of `who`, which acts by tools, in the folder that settings name. Raises UserError."""
        plan = await make_plan(settings.model_copy(update={"agent": "nop"}), say)
        context: GradingContext = plan.context
        protocol = load_protocol("tools", functions=context.dataset.beside("functions.json"))
        decides = {
            **plan.decides,
            "agent": who,
            "protocol": "tools",
            "loop": None,
            "prompts-digest": protocol.digest,
        }
        folder = settings.run_folder(context.dataset.version, who)
        return cls(replace(plan, decides=decides, folder=folder), command)

    @property
    def dataset(self) -> Dataset:
        """The tasks."""
        context: GradingContext = self._plan.context
        return context.dataset

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self._plan.folder

    @property
    def episode_options(self) -> EpisodeOptions:
        """What `medagent.episode` needs to open the run's episodes."""
        settings: Any = self._plan.settings
        return EpisodeOptions(
            dataset=settings.dataset,
            version=settings.version,
            tasks_file=settings.tasks_file,
            ehr=settings.ehr,
            fhir=settings.fhir,
            protocol="tools",
            writes=settings.writes,
            max_rounds=settings.max_rounds,
        )

    def protocol_tools(self, options: EpisodeOptions) -> Sequence[Tool]:
        """The tools of an episode."""
        protocol = load_protocol("tools", functions=self.dataset.beside("functions.json"))
        return Toolbox.of(protocol, options.api_base).tools()

    def take_trial(self, task_id: str) -> int:
        """The number of a task's next episode: the first that no row has, or that is owed."""
        self._trials[task_id] += 1
        while not self._journal.is_owed(f"{task_id}#{self._trials[task_id]}"):
            self._trials[task_id] += 1
        return self._trials[task_id]

    async def keep(self, row: EpisodeRow) -> None:
        """Keep an episode that has ended; it is on disk afterwards. Raises UserError."""
        row.timestamp = wall_clock()
        await self._journal.append(row)

    def __enter__(self) -> Self:
        plan, settings = self._plan, self._plan.settings
        self._folder = self._stack.enter_context(
            RunFolder(
                plan.folder,
                self._command,
                plan.decides,
                benchmark=self._benchmark.name,
                data=plan.data.model_dump(),
                places=settings.places(),
                overwrite=settings.overwrite,
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
            trials = max(int(unit.rpartition("#")[2]) for unit in self._journal.units)
            settings = self._plan.settings.model_copy(update={"trials": trials})
            standing = Standing(owed=list(self._journal.owed()), command=self._folder.command)
            findings = self._benchmark.finish(
                replace(self._plan, settings=settings, stages=()), Run(self.path, self._journals), standing
            )
            keep(self.path, compose(self._benchmark, self.path, findings, self._journals, standing))
