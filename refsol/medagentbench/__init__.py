"""MedAgentBench: the official verdict on an item, with its reason, with or without a server."""

from refsol.clinical.evidence import Deciding
from refsol.clinical.floor import BASELINES, Baselines
from refsol.clinical.known import grounds
from refsol.clinical.sources import NdjsonEhr, Resources, SearchEhr, Source
from refsol.clinical.task_type import task_type
from refsol.failures import FAILURE_KINDS, KIND_WORDS, Failure, FailureKind
from refsol.grounds import Grounds
from refsol.medagentbench._failures import failure_of
from refsol.medagentbench.constants import PUBLISHED, Constants
from refsol.medagentbench.formats import RecordedRun, read_recorded, stated_version
from refsol.medagentbench.grade import baselines, deciding, grade_item
from refsol.medagentbench.recorded import (
    RecordedEpisode,
    ResultItem,
    ResultsFile,
    episodes_beside,
    read_episodes,
    read_results,
)
from refsol.medagentbench.rules import RULE_SETS, RuleName, rule_name
from refsol.medagentbench.types import TYPES
from refsol.verdict import Because, Branch, Check, Fact, Verdict

__all__ = [
    "BASELINES",
    "FAILURE_KINDS",
    "KIND_WORDS",
    "PUBLISHED",
    "RULE_SETS",
    "TYPES",
    "Baselines",
    "Because",
    "Branch",
    "Check",
    "Constants",
    "Deciding",
    "Fact",
    "Failure",
    "FailureKind",
    "Grounds",
    "NdjsonEhr",
    "RecordedEpisode",
    "RecordedRun",
    "Resources",
    "ResultItem",
    "ResultsFile",
    "RuleName",
    "SearchEhr",
    "Source",
    "Verdict",
    "baselines",
    "deciding",
    "episodes_beside",
    "failure_of",
    "grade_item",
    "grounds",
    "read_episodes",
    "read_recorded",
    "read_results",
    "rule_name",
    "stated_version",
    "task_type",
]
