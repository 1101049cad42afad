"""medagent runs medical agents and models on medical benchmarks, keeps what happened, and grades it.

The names in `__all__` are the public API; each is imported when it is first used, so that `import medagent` costs
nothing.
"""

from __future__ import annotations

from importlib import import_module

from medagent.core.version import __version__ as __version__

TYPE_CHECKING = False
"""As that of `typing`, which takes ten milliseconds to import."""
if TYPE_CHECKING:
    from typing import Any

    from medagent.agents.base import Agent, AgentContext, Move, Policy
    from medagent.agents.calls import Call, CallJob, CallRow, ReplyRow
    from medagent.agents.choice import AgentChoice, ModelChoice
    from medagent.api import LoadedRun, compare, grade, load_run, run, run_sync
    from medagent.benchmarks.base import Benchmark
    from medagent.benchmarks.medagentbench.episodes import Episode, SyncEpisode, episode, tasks
    from medagent.benchmarks.medagentbench.http_episodes import HttpEpisode, HttpEpisodes, serve_episodes
    from medagent.benchmarks.medagentbench.session import Outcome, Session, Turn
    from medagent.benchmarks.medagentbench.tasks.dataset import Dataset, Task
    from medagent.core.errors import EpisodeError, MedagentError, ModelError, SessionEndedError, StopRunError, UserError
    from medagent.core.options import Option
    from medagent.engine.boundary import blame
    from medagent.engine.job import Job, Unit, Worker
    from medagent.engine.journals import JournalKind, Run
    from medagent.engine.plan import Plan, Stage
    from medagent.engine.report import (
        DataRef,
        ItemOutcome,
        ItemView,
        Report,
        ShownMessage,
        TableLine,
        TableSection,
    )
    from medagent.engine.rows import Row, Spent
    from medagent.engine.run import Findings, Standing
    from medagent.engine.settings import RunSettings
    from medagent.models.base import ChatModel, Completion, Message, Model, Tool, ToolCall, Usage
    from medagent.models.settings import ModelSettings


_HOMES = {
    "medagent.agents.base": ("Agent", "AgentContext", "Move", "Policy"),
    "medagent.agents.calls": ("Call", "CallJob", "CallRow", "ReplyRow"),
    "medagent.agents.choice": ("AgentChoice", "ModelChoice"),
    "medagent.api": ("LoadedRun", "compare", "grade", "load_run", "run", "run_sync"),
    "medagent.benchmarks.base": ("Benchmark",),
    "medagent.benchmarks.medagentbench.episodes": ("Episode", "SyncEpisode", "episode", "tasks"),
    "medagent.benchmarks.medagentbench.http_episodes": ("HttpEpisode", "HttpEpisodes", "serve_episodes"),
    "medagent.benchmarks.medagentbench.session": ("Outcome", "Session", "Turn"),
    "medagent.benchmarks.medagentbench.tasks.dataset": ("Dataset", "Task"),
    "medagent.engine.boundary": ("blame",),
    "medagent.engine.job": ("Job", "Unit", "Worker"),
    "medagent.engine.plan": ("Plan", "Stage"),
    "medagent.engine.report": (
        "DataRef",
        "ItemOutcome",
        "ItemView",
        "Report",
        "ShownMessage",
        "TableLine",
        "TableSection",
    ),
    "medagent.engine.rows": ("Row", "Spent"),
    "medagent.engine.run": ("Findings", "JournalKind", "Run", "Standing"),
    "medagent.engine.settings": ("RunSettings",),
    "medagent.core.errors": (
        "EpisodeError",
        "MedagentError",
        "ModelError",
        "SessionEndedError",
        "StopRunError",
        "UserError",
    ),
    "medagent.models.base": ("ChatModel", "Completion", "Message", "Model", "Tool", "ToolCall", "Usage"),
    "medagent.models.settings": ("ModelSettings",),
    "medagent.core.options": ("Option",),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Agent",
    "AgentChoice",
    "AgentContext",
    "Benchmark",
    "Call",
    "CallJob",
    "CallRow",
    "ChatModel",
    "Completion",
    "DataRef",
    "Dataset",
    "Episode",
    "EpisodeError",
    "Findings",
    "HttpEpisode",
    "HttpEpisodes",
    "ItemOutcome",
    "ItemView",
    "Job",
    "JournalKind",
    "LoadedRun",
    "MedagentError",
    "Message",
    "Model",
    "ModelChoice",
    "ModelError",
    "ModelSettings",
    "Move",
    "Option",
    "Outcome",
    "Plan",
    "Policy",
    "ReplyRow",
    "Report",
    "Row",
    "Run",
    "RunSettings",
    "Session",
    "SessionEndedError",
    "ShownMessage",
    "Spent",
    "Stage",
    "Standing",
    "StopRunError",
    "SyncEpisode",
    "TableLine",
    "TableSection",
    "Task",
    "Tool",
    "ToolCall",
    "Turn",
    "Unit",
    "Usage",
    "UserError",
    "Worker",
    "blame",
    "compare",
    "episode",
    "grade",
    "load_run",
    "run",
    "run_sync",
    "serve_episodes",
    "tasks",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'medagent' has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
