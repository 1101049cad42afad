"""Task types of a user: an active order by its name, a condition, and an age. `medagent run FILE` runs them."""

from __future__ import annotations

from collections.abc import Sequence

from medagent import clinical as c

DIABETES = c.Code("E11.9", "http://hl7.org/fhir/sid/icd-10-cm", "type 2 diabetes")
GLUCOSE = c.Code("2345-7", c.LOINC, "glucose")


class OnStatin(c.TaskType):
    """Measure glucose unless atorvastatin is active."""

    name = "on_atorvastatin"
    text = "If patient {mrn} has no active order of atorvastatin, order a glucose (LOINC 2345-7), stat."

    def rule(self, chart: c.Chart) -> c.Ruling:
        return c.nothing() if chart.active_order("atorvastatin") else c.order(c.lab_test(GLUCOSE, priority="stat"))


class HasDiabetes(c.TaskType):
    """Measure glucose unless the patient has diabetes."""

    name = "has_diabetes"
    text = "If patient {mrn} has no condition ICD-10 E11.9, order a glucose (LOINC 2345-7), stat."

    def rule(self, chart: c.Chart) -> c.Ruling:
        return c.nothing() if chart.has_condition(DIABETES) else c.order(c.lab_test(GLUCOSE, priority="stat"))


class IsOld(c.TaskType):
    """Measure glucose of patients below 65."""

    name = "is_old"
    text = "If patient {mrn} is younger than 65 years, order a glucose (LOINC 2345-7), stat."

    def rule(self, chart: c.Chart) -> c.Ruling:
        return c.nothing() if chart.age >= 65 else c.order(c.lab_test(GLUCOSE, priority="stat"))


def types() -> Sequence[c.TaskType]:
    """The types of this file."""
    return [OnStatin(), HasDiabetes(), IsOld()]
