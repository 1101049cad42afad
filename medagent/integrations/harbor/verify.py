"""The verifier's side: grades the log of an episode by the facts of its one task, as `medagent run` grades."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from medagent.benchmarks.medagentbench.episodes import verdict_of
from medagent.benchmarks.medagentbench.http_episodes import outcome_of
from medagent.benchmarks.medagentbench.tasks.dataset import Task
from medagent.core.errors import UserError
from medagent.engine.files import write_whole
from medagent.integrations.harbor.log import read_log
from refsol.files import read_json
from refsol.medagentbench import KeyEhr
from refsol.medagentbench.constants import PUBLISHED, Constants
from refsol.schema import validator

TASK, KEY = "task.json", "key.json"
"""What lies beside test.sh: the task with what its data set fixes, and its facts as an answer key."""


class GradedTask(BaseModel):
    """The content of `TASK`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: Task
    constants: Constants


def verify(tests: Path, log: Path, out: Path) -> str:
    """Grade a log; writes `reward.json`, 1.0 or 0.0, and `verdict.json` into a folder, and returns the verdict's line.

    Without answers nothing is right. Raises UserError, and writes no reward, where the log or the facts cannot be read:
    that is no wrong answer.
    """
    graded = read_json(
        tests / TASK, validator(GradedTask), expected="a task of the export is expected", error=UserError
    )
    exchanges, answers = read_log(log)
    outcome = outcome_of(exchanges, answers, PUBLISHED.base.rstrip("/"))
    verdict = verdict_of(graded.task, outcome, KeyEhr(tests / KEY), PUBLISHED.base, graded.constants)
    if verdict.correct is None:
        raise UserError(f"{tests}: cannot be graded: {verdict.reason}")
    kept = {
        "task": graded.task.id,
        "correct": verdict.correct,
        "reason": verdict.reason,
        "answers": answers,
        "checks": [dataclasses.asdict(check) for check in verdict.checks],
        "requests": len(exchanges),
    }
    write_whole(out / "verdict.json", json.dumps(kept, indent=1) + "\n")
    write_whole(out / "reward.json", json.dumps({"reward": 1.0 if verdict.correct else 0.0}) + "\n")
    return f"{graded.task.id}: {'right' if verdict.correct else 'wrong'}: {verdict.reason}"
