"""Grades psb-300: the verdict of the published grader on each item, or that of the fairer rule set, with the reason.

It needs no network and has no state. docs/psb-300.md describes the rules.
"""

from refsol.failures import FAILURE_KINDS, KIND_WORDS, Failure, FailureKind
from refsol.psb300._charts import Stored, save, stored
from refsol.psb300._facts import ChartFacts, Facts, ServerFacts, StoredFacts
from refsol.psb300._rules import RULE_SETS, RuleName, rule_name
from refsol.psb300._ruling import Evidence, Ruling
from refsol.psb300.baselines import baselines, constant_answers
from refsol.psb300.chart import ChartFault, Search
from refsol.psb300.grade import (
    PUBLISHED,
    TASKS,
    Constants,
    TaskError,
    evaluate,
    failure_of,
    grade_item,
    stated_now,
    task_type,
    unread,
)
from refsol.reads import Read
from refsol.verdict import Because, Check, Fact, Verdict

__all__ = [
    "FAILURE_KINDS",
    "KIND_WORDS",
    "PUBLISHED",
    "RULE_SETS",
    "TASKS",
    "Because",
    "ChartFacts",
    "ChartFault",
    "Check",
    "Constants",
    "Evidence",
    "Fact",
    "Facts",
    "Failure",
    "FailureKind",
    "Read",
    "RuleName",
    "Ruling",
    "Search",
    "ServerFacts",
    "Stored",
    "StoredFacts",
    "TaskError",
    "Verdict",
    "baselines",
    "constant_answers",
    "evaluate",
    "failure_of",
    "grade_item",
    "rule_name",
    "save",
    "stated_now",
    "stored",
    "task_type",
    "unread",
]
