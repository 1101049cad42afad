"""MedAgentBench: the official verdict on every item of a results file, with the reason, with or without a server."""

from refsol.medagentbench.baselines import constant_answers
from refsol.medagentbench.ehr import Ehr, HttpEhr, NdjsonEhr, Patient, Reading
from refsol.medagentbench.episodes import Episode, read_episodes
from refsol.medagentbench.grade import DEFAULT_BASE, grade_item
from refsol.medagentbench.key import KeyEhr, build_key, read_key, write_key
from refsol.medagentbench.results import ResultItem, ResultsFile, read_results
from refsol.medagentbench.rules import RULE_SETS, RuleName, rule_name
from refsol.medagentbench.score import GradedItem, GradeReport, Rate, grade_file
from refsol.medagentbench.verdict import Branch, Check, Verdict

__all__ = [
    "DEFAULT_BASE",
    "RULE_SETS",
    "Branch",
    "Check",
    "Ehr",
    "Episode",
    "GradeReport",
    "GradedItem",
    "HttpEhr",
    "KeyEhr",
    "NdjsonEhr",
    "Patient",
    "Rate",
    "Reading",
    "ResultItem",
    "ResultsFile",
    "RuleName",
    "Verdict",
    "build_key",
    "constant_answers",
    "grade_file",
    "grade_item",
    "read_episodes",
    "read_key",
    "read_results",
    "rule_name",
    "write_key",
]
