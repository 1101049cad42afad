"""A benchmark of task types in a package of its own: two types over the bundled hospital's codes."""

from __future__ import annotations

import medagent
from medagent import clinical as c

POTASSIUM = c.Lab("K", c.LOINC, "potassium", unit="mmol/L")
MAGNESIUM = c.Lab("MG", c.LOINC, "magnesium", unit="mg/dL")


class RepeatPotassium(c.TaskType):
    """Order a repeat test if the last potassium is low."""

    name = "repeat_potassium"
    text = """Check the last potassium of patient {mrn}. If it is below 3.5 mmol/L, order a repeat test for 8 am
    tomorrow (code K). Answer with the last value, or -1 if there is none."""

    def rule(self, chart: c.Chart) -> c.Ruling:
        last = chart.latest(POTASSIUM)
        if last is None:
            return c.nothing([-1])
        if last >= 3.5:
            return c.nothing([last.value])
        return c.order(c.lab_test(POTASSIUM, at=chart.tomorrow(8)), answers=[[last.value]])


class LastMagnesium(c.TaskType):
    """The last magnesium."""

    name = "last_magnesium"
    text = "What is the last magnesium (code MG) of patient {mrn}? Answer with the value, or -1 if there is none."

    def rule(self, chart: c.Chart) -> c.Ruling:
        last = chart.latest(MAGNESIUM)
        return c.answer([-1] if last is None else [last.value])


class Renal(medagent.ClinicalBenchmark[medagent.ClinicalSettings]):
    """Potassium and magnesium of inpatients."""

    name = "renal"
    types = (RepeatPotassium(), LastMagnesium())
