"""Judges: models that label the answers of a run, for any benchmark.

A benchmark defines a `Rubric`: the queries to a judge about an answer, and how its reply is read. Everything else is
here: the panel, its prompt and digest, the journal of judgements, what is owed, and the command `medagent judge`.
"""

from medagent.judging.benchmark import JudgedBenchmark, judged_plan, judgements_of
from medagent.judging.calls import ask
from medagent.judging.judged import Judged, Verdict
from medagent.judging.panel import Panel, PanelSettings
from medagent.judging.rubric import Case, Prompt, Query, Rubric, Subject, only_label

__all__ = [
    "Case",
    "Judged",
    "JudgedBenchmark",
    "Panel",
    "PanelSettings",
    "Prompt",
    "Query",
    "Rubric",
    "Subject",
    "Verdict",
    "ask",
    "judged_plan",
    "judgements_of",
    "only_label",
]
