"""medagent runs medical agents and models on medical benchmarks, stores what they did, and grades it.

The names in `__all__` are the public API for runs, agents, models and benchmarks. More names are in `medagent.engine`
(benchmarks with units of their own), `medagent.fhir` (episodes), `medagent.judging`, `medagent.blocks`, `medagent.rl`
and `medagent.testing`. Each name is imported on first use, so that `import medagent` is fast.
"""

from __future__ import annotations

from importlib import import_module

from medagent.core.version import __version__ as __version__

TYPE_CHECKING = False
"""The same as `typing.TYPE_CHECKING`, without importing `typing`, which is slow."""
if TYPE_CHECKING:
    from medagent._api import LoadedRun, compare, episode, grade, load_run, run, run_sync, serve_episodes, tasks
    from medagent.agents.base import Agent, AgentContext, Move, Policy
    from medagent.agents.calls import ReplyRow, single_turn
    from medagent.benchmarks.clinical.benchmark import ClinicalBenchmark
    from medagent.benchmarks.clinical.settings import ClinicalSettings
    from medagent.benchmarks.clinical.tasks import Task
    from medagent.core.errors import EpisodeError, MedagentError, ModelError, SessionEndedError, StopRunError, UserError
    from medagent.core.options import Option
    from medagent.engine.benchmark import Benchmark, Say
    from medagent.engine.learning import Feedback
    from medagent.engine.plan import Plan
    from medagent.engine.report import Report
    from medagent.engine.scores import Check, Grader, Item, Score
    from medagent.engine.set_target import set_score
    from medagent.engine.settings import RunSettings
    from medagent.fhir_episodes.benchmark import FhirBenchmark
    from medagent.fhir_episodes.episode import EpisodeRow
    from medagent.fhir_episodes.own_loop import Env
    from medagent.fhir_episodes.session import Turn
    from medagent.fhir_episodes.settings import FhirSettings
    from medagent.fhir_episodes.task import FhirItem, FhirTask
    from medagent.models.base import Completion, Message, Model, Tool, ToolCall, Usage
    from medagent.reports.compare import Comparison


_HOMES = {
    "medagent._api": "LoadedRun compare episode grade load_run run run_sync serve_episodes tasks",
    "medagent.agents.base": "Agent AgentContext Move Policy",
    "medagent.agents.calls": "ReplyRow single_turn",
    "medagent.benchmarks.clinical.benchmark": "ClinicalBenchmark",
    "medagent.benchmarks.clinical.settings": "ClinicalSettings",
    "medagent.benchmarks.clinical.tasks": "Task",
    "medagent.core.errors": "EpisodeError MedagentError ModelError SessionEndedError StopRunError UserError",
    "medagent.core.options": "Option",
    "medagent.engine.benchmark": "Benchmark Say",
    "medagent.engine.learning": "Feedback",
    "medagent.engine.plan": "Plan",
    "medagent.engine.report": "Report",
    "medagent.engine.scores": "Check Grader Item Score",
    "medagent.engine.set_target": "set_score",
    "medagent.engine.settings": "RunSettings",
    "medagent.fhir_episodes.benchmark": "FhirBenchmark",
    "medagent.fhir_episodes.episode": "EpisodeRow",
    "medagent.fhir_episodes.own_loop": "Env",
    "medagent.fhir_episodes.session": "Turn",
    "medagent.fhir_episodes.settings": "FhirSettings",
    "medagent.fhir_episodes.task": "FhirItem FhirTask",
    "medagent.models.base": "Completion Message Model Tool ToolCall Usage",
    "medagent.reports.compare": "Comparison",
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Agent",
    "AgentContext",
    "Benchmark",
    "Check",
    "ClinicalBenchmark",
    "ClinicalSettings",
    "Comparison",
    "Completion",
    "Env",
    "EpisodeError",
    "EpisodeRow",
    "Feedback",
    "FhirBenchmark",
    "FhirItem",
    "FhirSettings",
    "FhirTask",
    "Grader",
    "Item",
    "LoadedRun",
    "MedagentError",
    "Message",
    "Model",
    "ModelError",
    "Move",
    "Option",
    "Plan",
    "Policy",
    "ReplyRow",
    "Report",
    "RunSettings",
    "Say",
    "Score",
    "SessionEndedError",
    "StopRunError",
    "Task",
    "Tool",
    "ToolCall",
    "Turn",
    "Usage",
    "UserError",
    "compare",
    "episode",
    "grade",
    "load_run",
    "run",
    "run_sync",
    "serve_episodes",
    "set_score",
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
