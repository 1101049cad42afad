"""MedAgentBench: the official verdict on every item of a results file, with the reason, with or without a server."""

from refsol.medagentbench.ehr import Ehr, HttpEhr, NdjsonEhr, Patient, Reading
from refsol.medagentbench.episodes import Episode, read_episodes
from refsol.medagentbench.grade import DEFAULT_BASE, grade_item
from refsol.medagentbench.rules import RuleName
from refsol.medagentbench.verdict import Branch, Check, Verdict

__all__ = [
    "DEFAULT_BASE",
    "Branch",
    "Check",
    "Ehr",
    "Episode",
    "HttpEhr",
    "NdjsonEhr",
    "Patient",
    "Reading",
    "RuleName",
    "Verdict",
    "grade_item",
    "read_episodes",
]
