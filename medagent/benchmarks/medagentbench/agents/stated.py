"""Reads the constants that a task's text states: clock, codes, thresholds, doses and intervals.

The patterns match generated tasks (`generator/wording.toml`). A constant that is not matched keeps its published value,
as in the published tasks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

from medagent.fhir_episodes.task import TaskWords
from refsol.medagentbench.constants import PUBLISHED, Constants, LabTest

_MRN = re.compile(r"(?<![\w-])(?:[A-Z]{1,2}-?\d{6,8}|\d{4}-[A-Z]\d{2})(?![\w-])")
_DOSES = re.compile(
    r"([\d.]+) to ([\d.]+) is a mild deficiency, give (\d+) g IV over (\d+) hours?; from ([\d.]+) to below \1 a "
    r"moderate one, (?:give )?(\d+) g IV over \d+ hours?; below \5 a severe one, (?:give )?(\d+) g"
)
_CODE = r'{} has the code "([^"]+)"'
_IN_CONTEXT: dict[str, tuple[str, Callable[[str], Any]]] = {
    "now": (r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00)", datetime.fromisoformat),
    "magnesium": (_CODE.format("Magnesium"), lambda code: LabTest(code, "")),
    "potassium": (_CODE.format("Potassium"), lambda code: LabTest(code, "")),
    "glucose": (_CODE.format("CBG"), lambda code: LabTest(code, "")),
    "a1c": (_CODE.format("HbA1c"), lambda code: LabTest(code, "")),
    "look_back_hours": (r"the last (\d+) hours", int),
    "blood_pressure_code": (r"flowsheet ID (\w+)\.", str),
    "referral_code": (r"has the SNOMED code (\d+)\.", str),
    "magnesium_drug": (r"magnesium for replacement has the NDC ([\d-]+)\.", str),
    "potassium_low": (r"low means below ([\d.]+) ", float),
    "potassium_dose": (r"(\d+) mEq by mouth for every", int),
    "potassium_drug": (r"potassium for replacement has the NDC ([\d-]+)\.", str),
    "potassium_test": (r"potassium test has the LOINC code ([\d-]+)\.", str),
    "a1c_test": (r"LOINC code to order the test is ([\d-]+)\.", str),
}
"""By constant: the pattern that finds it in the context, and the function that parses it. Units are not needed."""
_IN_INSTRUCTION: dict[str, tuple[str, Callable[[str], Any]]] = {
    "follow_up_hour": (r"(?<![\d:])(\d{1,2})(?: ?am\b|:00\b| o'clock)", int),
    "a1c_months": (r"(\d+) months", int),
    "blood_pressure": (r"(\d+/\d+ mmHg)", str),
    "referral": (r"(Situation:[\s\S]*recommendations\.)", str),
}


def stated(task: TaskWords) -> Constants:
    """The constants of a task: those that its text states, otherwise the published ones."""
    values = {}
    for words, patterns in ((task.context, _IN_CONTEXT), (task.instruction, _IN_INSTRUCTION)):
        for name, (pattern, value) in patterns.items():
            if match := re.search(pattern, words):
                values[name] = value(match[1])
    if rule := _DOSES.search(task.context):
        moderate, mild, least, hours, severe, more, most = rule.groups()
        levels = zip((severe, moderate, mild), (most, more, least), strict=True)
        values["magnesium_doses"] = tuple((float(level), int(grams)) for level, grams in levels)
        values["magnesium_hours_per_gram"] = int(hours) // int(least)
    return replace(PUBLISHED, **values)


def stated_mrn(instruction: str) -> str:
    """The first text in the instruction that looks like an MRN. Empty if there is none."""
    match = _MRN.search(instruction)
    return match[0] if match else ""
