"""Grades FHIR-AgentBench: retrieval and answers, as the published evaluator, the paper or the A2A evaluator does.

It needs no network: the caller passes the judge's replies. A comparison without a judge decides clear cases.
docs/fhir-agentbench.md describes the rules.
"""

from refsol.fhiragentbench._questions import (
    FAMILIES,
    Family,
    Ids,
    Question,
    always_empty,
    family_of,
    questions_text,
    read_questions,
)
from refsol.fhiragentbench._replay import Call, EvaluationError, evaluate
from refsol.fhiragentbench.answers import Correct, is_error, normalized, read_judge, settle
from refsol.fhiragentbench.compare import NOT_IN_RECORD, compare, decide, of_twin, refuses
from refsol.fhiragentbench.figures import (
    FAILURE_KINDS,
    KIND_WORDS,
    FailureKind,
    Figures,
    RowPart,
    RowScore,
    baselines,
    by_types,
    figures,
    grade_row,
    grouped,
)
from refsol.fhiragentbench.outputs import COLUMNS, Output, read_outputs, with_context, write_outputs
from refsol.fhiragentbench.reliability import OUTCOMES, PENALTIES, Outcome, outcome_of, reliability
from refsol.fhiragentbench.retrieval import RULE_SETS, ResourcesError, Retrieval, RuleName, retrieve, rule_name

__all__ = [
    "COLUMNS",
    "FAILURE_KINDS",
    "FAMILIES",
    "KIND_WORDS",
    "NOT_IN_RECORD",
    "OUTCOMES",
    "PENALTIES",
    "RULE_SETS",
    "Call",
    "Correct",
    "EvaluationError",
    "FailureKind",
    "Family",
    "Figures",
    "Ids",
    "Outcome",
    "Output",
    "Question",
    "ResourcesError",
    "Retrieval",
    "RowPart",
    "RowScore",
    "RuleName",
    "always_empty",
    "baselines",
    "by_types",
    "compare",
    "decide",
    "evaluate",
    "family_of",
    "figures",
    "grade_row",
    "grouped",
    "is_error",
    "normalized",
    "of_twin",
    "outcome_of",
    "questions_text",
    "read_judge",
    "read_outputs",
    "read_questions",
    "refuses",
    "reliability",
    "retrieve",
    "rule_name",
    "settle",
    "with_context",
    "write_outputs",
]
