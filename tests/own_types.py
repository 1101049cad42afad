"""A task type with the codes of the hospitals that `medagent data new` makes."""

from __future__ import annotations

from medagent import clinical as c

POTASSIUM = c.Lab("K", c.LOINC, "potassium", unit="mmol/L")


class RepeatPotassium(c.TaskType):
    """Order a repeat test if the last potassium is low."""

    name = "repeat_potassium"
    text = """Check the last potassium (K) of patient {mrn}. If it is below 3.5 mmol/L, order a repeat test (K) for
    8 am tomorrow."""

    def rule(self, chart: c.Chart) -> c.Ruling:
        last = chart.latest(POTASSIUM)
        if last is None or last >= 3.5:
            return c.nothing()
        return c.order(c.lab_test(POTASSIUM, at=chart.tomorrow(8)))
