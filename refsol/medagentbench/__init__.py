"""MedAgentBench: the official verdict on an item, with its reason, with or without a server."""

from refsol.failures import FAILURE_KINDS, KIND_WORDS, Failure, FailureKind
from refsol.medagentbench._baselines import BASELINES, Baselines
from refsol.medagentbench._deciding import DecidingTest, deciding_test
from refsol.medagentbench._failures import failure_of
from refsol.medagentbench._grounded import NEEDS_NO_READING, grounds
from refsol.medagentbench._key import KeyEhr, build_key, key_text, read_key, write_key
from refsol.medagentbench.constants import PUBLISHED, Constants
from refsol.medagentbench.facts import Facts, NdjsonEhr, Observation, Patient, SearchEhr
from refsol.medagentbench.grade import grade_item, task_type
from refsol.medagentbench.recorded import (
    RecordedEpisode,
    RecordedRun,
    ResultItem,
    ResultsFile,
    episodes_beside,
    read_episodes,
    read_recorded,
    read_results,
    stated_version,
)
from refsol.medagentbench.rules import RULE_SETS, RuleName, rule_name
from refsol.reads import Grounds
from refsol.verdict import Because, Branch, Check, Fact, Verdict

__all__ = [
    "BASELINES",
    "FAILURE_KINDS",
    "KIND_WORDS",
    "NEEDS_NO_READING",
    "PUBLISHED",
    "RULE_SETS",
    "Baselines",
    "Because",
    "Branch",
    "Check",
    "Constants",
    "DecidingTest",
    "Fact",
    "Facts",
    "Failure",
    "FailureKind",
    "Grounds",
    "KeyEhr",
    "NdjsonEhr",
    "Observation",
    "Patient",
    "RecordedEpisode",
    "RecordedRun",
    "ResultItem",
    "ResultsFile",
    "RuleName",
    "SearchEhr",
    "Verdict",
    "build_key",
    "deciding_test",
    "episodes_beside",
    "failure_of",
    "grade_item",
    "grounds",
    "key_text",
    "read_episodes",
    "read_key",
    "read_recorded",
    "read_results",
    "rule_name",
    "stated_version",
    "task_type",
    "write_key",
]
