"""Grades psb-300: the verdict of the published grader on each item, or the fairer rule set's, with the reason.

It works without a network and keeps no state. docs/psb-300.md describes the rules.
"""

from refsol.clinical.failures import failure_of
from refsol.clinical.floor import BASELINES, Baselines
from refsol.clinical.sources import NdjsonEhr, Resources, SearchEhr, Source
from refsol.clinical.task_type import UngradableError as TaskError
from refsol.clinical.task_type import task_type
from refsol.failures import FAILURE_KINDS, KIND_WORDS, Failure, FailureKind
from refsol.psb300._charts import Stored, stored
from refsol.psb300.grade import (
    PUBLISHED,
    RuleConstants,
    baselines,
    chart_of,
    grade_item,
    stated_now,
    type_of,
)
from refsol.psb300.rules import RULE_SETS, RuleName, rule_name
from refsol.psb300.types import TYPES
from refsol.verdict import Because, Check, Fact, Verdict

__all__ = [
    "BASELINES",
    "FAILURE_KINDS",
    "KIND_WORDS",
    "PUBLISHED",
    "RULE_SETS",
    "TYPES",
    "Baselines",
    "Because",
    "Check",
    "Fact",
    "Failure",
    "FailureKind",
    "NdjsonEhr",
    "Resources",
    "RuleConstants",
    "RuleName",
    "SearchEhr",
    "Source",
    "Stored",
    "TaskError",
    "Verdict",
    "baselines",
    "chart_of",
    "failure_of",
    "grade_item",
    "rule_name",
    "stated_now",
    "stored",
    "task_type",
    "type_of",
]
