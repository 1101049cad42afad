"""medagent runs medical agents and models on medical benchmarks, stores what they did, and grades it.

The names in `__all__` are the public API. Each is imported on first use, so that `import medagent` is fast.
"""

from __future__ import annotations

from importlib import import_module

from medagent.core.version import __version__ as __version__

TYPE_CHECKING = False
"""The same as `typing.TYPE_CHECKING`, without importing `typing`, which is slow."""
if TYPE_CHECKING:
    from medagent._api import LoadedRun, compare, episode, grade, load_run, run, run_sync, serve_episodes, tasks
    from medagent.agents.base import Agent, AgentContext, Move, Policy
    from medagent.agents.calls import Call, CallJob, CallRow, ReplyRow, single_turn
    from medagent.agents.choice import AgentChoice, ModelChoice
    from medagent.benchmarks.medagentbench.tasks.dataset import Dataset, Task
    from medagent.core.errors import EpisodeError, MedagentError, ModelError, SessionEndedError, StopRunError, UserError
    from medagent.core.options import Option
    from medagent.engine.benchmark import Benchmark, Say
    from medagent.engine.boundary import blame
    from medagent.engine.job import Job, Unit, Worker
    from medagent.engine.journals import JournalKind, Run
    from medagent.engine.learning import Feedback
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
    from medagent.engine.scores import Check, Figures, Grader, Item, Score, Scored
    from medagent.engine.settings import RunSettings
    from medagent.fhir_episodes.benchmark import FhirBenchmark
    from medagent.fhir_episodes.episode import EpisodeRow
    from medagent.fhir_episodes.episodes import Episode, EpisodeContext, SyncEpisode
    from medagent.fhir_episodes.http_episodes import HttpEpisode, HttpEpisodes
    from medagent.fhir_episodes.own_loop import Env
    from medagent.fhir_episodes.session import Outcome, Session, Turn
    from medagent.fhir_episodes.settings import FhirSettings
    from medagent.fhir_episodes.task import FhirItem, FhirTask
    from medagent.models.base import ChatModel, Completion, Message, Model, Tool, ToolCall, Usage
    from medagent.models.settings import ModelSettings
    from medagent.reports.compare import Comparison, ScoreComparison
    from medagent.reports.siblings import SetComparison


_HOMES = {
    "medagent.agents.base": "Agent AgentContext Move Policy",
    "medagent.agents.calls": "Call CallJob CallRow ReplyRow single_turn",
    "medagent.agents.choice": "AgentChoice ModelChoice",
    "medagent._api": "LoadedRun compare episode grade load_run run run_sync serve_episodes tasks",
    "medagent.benchmarks.medagentbench.tasks.dataset": "Dataset Task",
    "medagent.core.errors": "EpisodeError MedagentError ModelError SessionEndedError StopRunError UserError",
    "medagent.core.options": "Option",
    "medagent.engine.benchmark": "Benchmark Say",
    "medagent.engine.boundary": "blame",
    "medagent.engine.job": "Job Unit Worker",
    "medagent.engine.journals": "JournalKind Run",
    "medagent.engine.learning": "Feedback",
    "medagent.engine.plan": "Plan Stage",
    "medagent.engine.report": "DataRef ItemOutcome ItemView Report ShownMessage TableLine TableSection",
    "medagent.engine.rows": "Row Spent",
    "medagent.engine.scores": "Check Figures Grader Item Score Scored",
    "medagent.engine.settings": "RunSettings",
    "medagent.fhir_episodes.benchmark": "FhirBenchmark",
    "medagent.fhir_episodes.episode": "EpisodeRow",
    "medagent.fhir_episodes.episodes": "Episode EpisodeContext SyncEpisode",
    "medagent.fhir_episodes.http_episodes": "HttpEpisode HttpEpisodes",
    "medagent.fhir_episodes.own_loop": "Env",
    "medagent.fhir_episodes.session": "Outcome Session Turn",
    "medagent.fhir_episodes.settings": "FhirSettings",
    "medagent.fhir_episodes.task": "FhirItem FhirTask",
    "medagent.models.base": "ChatModel Completion Message Model Tool ToolCall Usage",
    "medagent.models.settings": "ModelSettings",
    "medagent.reports.compare": "Comparison ScoreComparison",
    "medagent.reports.siblings": "SetComparison",
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Agent",
    "AgentChoice",
    "AgentContext",
    "Benchmark",
    "Call",
    "CallJob",
    "CallRow",
    "ChatModel",
    "Check",
    "Comparison",
    "Completion",
    "DataRef",
    "Dataset",
    "Env",
    "Episode",
    "EpisodeContext",
    "EpisodeError",
    "EpisodeRow",
    "Feedback",
    "FhirBenchmark",
    "FhirItem",
    "FhirSettings",
    "FhirTask",
    "Figures",
    "Grader",
    "HttpEpisode",
    "HttpEpisodes",
    "Item",
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
    "Say",
    "Score",
    "ScoreComparison",
    "Scored",
    "Session",
    "SessionEndedError",
    "SetComparison",
    "ShownMessage",
    "Spent",
    "Stage",
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
    "single_turn",
    "tasks",
]

if not TYPE_CHECKING:  # with it, a type checker would accept every misspelt name

    def __getattr__(name: str) -> object:
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'medagent' has no attribute {name!r}")
        value = getattr(import_module(_MODULE_OF[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
