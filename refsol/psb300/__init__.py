"""Grades psb-300: the verdict of the published grader on each item, or that of the fairer rule set, with the reason.

It needs no network and has no state. docs/psb-300.md describes the rules.
"""

from refsol._reads import Read
from refsol.failures import FAILURE_KINDS, KIND_WORDS, Failure, FailureKind
from refsol.psb300._charts import Stored, save, stored
from refsol.psb300._constants import PUBLISHED, Constants
from refsol.psb300._facts import ChartFacts, Facts, ServerFacts, StoredFacts
from refsol.psb300._failures import failure_of
from refsol.psb300._grounded import unread
from refsol.psb300._now import stated_now
from refsol.psb300._rules import RULE_SETS, RuleName, rule_name
from refsol.psb300._ruling import Evidence, Ruling
from refsol.psb300.baselines import baselines, constant_answers
from refsol.psb300.chart import ChartFault, Search
from refsol.psb300.grade import TASKS, TaskError, evaluate, grade_item, task_type
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
