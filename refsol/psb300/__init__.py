"""psb-300: the published verdict on every item, with the reason, or the verdict of a fairer rule set.

Pure and offline. The rules are in docs/psb-300.md.
"""

from refsol.failures import FAILURE_KINDS, KIND_WORDS, Failure, FailureKind
from refsol.psb300.baselines import baselines
from refsol.psb300.chart import ChartFault, Search
from refsol.psb300.constants import PUBLISHED, Constants
from refsol.psb300.facts import ChartFacts, Facts, ServerFacts
from refsol.psb300.failures import failure_of
from refsol.psb300.grade import TaskError, evaluate, grade_item, task_type
from refsol.psb300.grounded import unread
from refsol.psb300.now import stated_now
from refsol.psb300.rules import RULE_SETS, RuleName, rule_name
from refsol.psb300.ruling import Evidence, Ruling
from refsol.reads import Read
from refsol.verdict import Because, Check, Fact, Verdict

__all__ = [
    "FAILURE_KINDS",
    "KIND_WORDS",
    "PUBLISHED",
    "RULE_SETS",
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
    "TaskError",
    "Verdict",
    "baselines",
    "evaluate",
    "failure_of",
    "grade_item",
    "rule_name",
    "stated_now",
    "task_type",
    "unread",
]
