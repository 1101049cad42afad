"""The ten task types of MedAgentBench. Each is a function of a chart and of the data set's constants."""

from __future__ import annotations

from typing import Any

from refsol.clinical.chart import Chart, Event
from refsol.clinical.codes import LABORATORY, LOINC, NDC, SNOMED, Code, Lab, hours
from refsol.clinical.meanings import About, At, Instant, Is, Meaning, Near
from refsol.clinical.orders import Field, Order, lab_test, lookup, medication, referral
from refsol.clinical.rulings import Reply, Ruling, answer, nothing, order
from refsol.clinical.task_type import TaskType, UngradableError
from refsol.clinical.vocabulary import spaced, system_of
from refsol.json_values import objects
from refsol.medagentbench._lookup import find_patient, note_patient
from refsol.medagentbench.constants import PUBLISHED, Constants
from refsol.medagentbench.constants import LabTest as Test
from refsol.verdict import Check, Verdict, show

NO_RESULT: list[Any] = [-1]
"""The answer to a query without a matching measurement."""


class MabType(TaskType):
    """A task type with the constants of a data set."""

    def __init__(self, constants: Constants = PUBLISHED) -> None:
        self.constants = constants
        self.window = hours(constants.look_back_hours)

    def judge(self, chart: Chart, reply: Reply) -> Verdict:
        """See `TaskType.judge`. The published grader can read only texts. Raises UngradableError."""
        verdict = super().judge(chart, reply)
        if verdict.accepted and not isinstance(reply.raw, str | None):
            raise UngradableError(f"the answer is not a JSON text but {type(reply.raw).__name__}: {show(reply.raw)}")
        return verdict

    def faulty(self, reply: Reply, fault: str) -> Verdict:
        """See `TaskType.faulty`. In the published grader, the item is wrong."""
        done = Check("completed", reply.raw is not None, "an answer", "none" if reply.raw is None else "an answer")
        data = Check("data", False, "data that a verdict can rest on", fault)
        return Verdict(False, (done, data), f"the data, not the agent: {fault}")


def _lab(test: Test, name: str, decimals: int = 1) -> Lab:
    return Lab(test.code, LOINC, name, test.unit, decimals, LABORATORY)


def _value(level: Event | None) -> list[Any]:
    return NO_RESULT if level is None else [level.value]


class FindPatient(MabType):
    """Find a patient by name and birth date. A published task states its answer (`sol`)."""

    name, title = "task1", "find a patient"

    def rule(self, chart: Chart) -> Ruling:
        sol = chart.task.get("sol")
        if sol is None:
            return answer([find_patient(chart)])
        note_patient(chart, sol)
        return Ruling("query", (sol,), because=f"the right answer is {show(sol)}")


class PatientAge(MabType):
    """A patient's age."""

    name, title = "task2", "age"

    def rule(self, chart: Chart) -> Ruling:
        born, age = chart.birth_date, chart.age
        return Ruling("query", ([age],), because=f"born {born}, so {age} years old on {chart.now.date()}")


class _OneCategory(Meaning):
    """A list of one concept with one coding. Read by its meaning, the concept may have a text and no display, and its
    system may be the current one of HL7.
    """

    def json(self) -> Any:
        return [{"coding": [self.value]}]

    def accepts(self, actual: Any, chart: Any) -> bool:
        if not chart.rules.by_meaning:
            codings = lookup(actual, "[0].coding") if isinstance(actual, list) and len(actual) == 1 else None
            return bool(codings == [self.value])
        codings = [coding for concept in objects(actual) for coding in objects(concept.get("coding"))]
        system = system_of(self.value["system"])
        codes = [coding.get("code") for coding in codings if system_of(coding.get("system")) == system]
        return bool(codes) and all(code == self.value["code"] for code in codes)


class _Stated(Meaning):
    """A text that the instruction states, with any spaces and line breaks if it is read by its meaning."""

    def accepts(self, actual: Any, chart: Any) -> bool:
        if not chart.rules.by_meaning or not isinstance(actual, str):
            return bool(actual == self.value)
        return spaced(actual) == spaced(self.value)

    @property
    def stated(self) -> tuple[str, ...]:
        return (str(self.value),)


class _Text(_Stated):
    """A concept with a text. Read by its meaning, it may have codings too."""

    def json(self) -> Any:
        return {"text": self.value}

    def accepts(self, actual: Any, chart: Any) -> bool:
        if not chart.rules.by_meaning:
            return bool(actual == self.json())
        return _Stated.accepts(self, lookup(actual, "text"), chart)

    @property
    def stated(self) -> tuple[str, ...]:
        return ()


class RecordPressure(MabType):
    """Record a blood pressure. The answer does not count."""

    name, title = "task3", "record blood pressure"

    def rule(self, chart: Chart) -> Ruling:
        vital = {
            "system": "http://hl7.org/fhir/observation-category",
            "code": "vital-signs",
            "display": "Vital Signs",
        }
        fields = (
            Field("category", _OneCategory(vital)),
            Field("code", _Text(self.constants.blood_pressure_code)),
            Field("effectiveDateTime", At(chart.now, "second")),
            Field("status", Is("final")),
            Field("valueString", _Stated(self.constants.blood_pressure)),
            Field("subject", About(chart.patient)),
        )
        about = (Code("", name="blood pressure"),)
        due = Order(("Observation",), fields, f"record {self.constants.blood_pressure}", about=about)
        because = f"the instruction asks to record {self.constants.blood_pressure}, now"
        return Ruling("order", None, (due,), because)


class LastMagnesium(MabType):
    """The last magnesium of the look-back window."""

    name, title = "task4", "last magnesium"

    def rule(self, chart: Chart) -> Ruling:
        return answer(_value(chart.latest(_lab(self.constants.magnesium, "magnesium"), self.window)))


class ReplaceMagnesium(MabType):
    """The last magnesium, and an infusion if it is low."""

    name, title = "task5", "replace magnesium"

    def rule(self, chart: Chart) -> Ruling:
        level = chart.latest(_lab(self.constants.magnesium, "magnesium"), self.window)
        if level is None:
            return nothing()
        if level > self.constants.magnesium_low:
            return nothing([level.value], [])
        doses = self.constants.magnesium_doses
        grams = next((grams for below, grams in doses[:-1] if level < below), doses[-1][1])
        drug = Code(self.constants.magnesium_drug, NDC, "magnesium sulfate")
        infusion = medication(drug, grams, "g", route="IV", over=grams * self.constants.magnesium_hours_per_gram)
        return order(infusion, answers=([level.value], []))


class MeanGlucose(MabType):
    """The mean glucose of the look-back window, less than 0.1 away."""

    name, title = "task6", "mean glucose"

    def rule(self, chart: Chart) -> Ruling:
        mean = chart.mean(_lab(self.constants.glucose, "glucose", 0), self.window)
        return answer([Near(-1 if mean is None else float(mean), 0.1)])


class LastGlucose(MabType):
    """The last glucose, at any time."""

    name, title = "task7", "last glucose"

    def rule(self, chart: Chart) -> Ruling:
        return answer(_value(chart.latest(_lab(self.constants.glucose, "glucose", 0))))


class OrderReferral(MabType):
    """Order an orthopedic referral. The answer does not count."""

    name, title = "task8", "order a referral"

    def rule(self, chart: Chart) -> Ruling:
        code = Code(self.constants.referral_code, SNOMED, "orthopedic surgery referral")
        due = referral(code, priority="stat", note=self.constants.referral)
        return Ruling("order", None, (due,), "the instruction asks for an orthopedic referral, now")


class ReplacePotassium(MabType):
    """The last potassium and, if it is low, its replacement and a test on the next morning."""

    name, title = "task9", "replace potassium"

    def rule(self, chart: Chart) -> Ruling:
        level, low = chart.latest(_lab(self.constants.potassium, "potassium")), self.constants.potassium_low
        if level is None or level >= low:
            return nothing(_value(level), [])
        # The order of operations matters: the last digit must be the same as in the published grader.
        dose = (low - level.value) / 0.1 * self.constants.potassium_dose
        drug = Code(self.constants.potassium_drug, NDC, "potassium chloride")
        test = Code(self.constants.potassium_test, LOINC, "potassium in serum")
        follow_up = lab_test(test, at=chart.tomorrow(self.constants.follow_up_hour), priority="stat", to="hour")
        replacement = medication(drug, dose, "mEq", route="oral", tolerance=0.1)
        return order(replacement, follow_up, answers=(_value(level), []))


class Hba1c(MabType):
    """The last HbA1c with its time, and a new one if the last is too old."""

    name, title = "task10", "HbA1c"

    def rule(self, chart: Chart) -> Ruling:
        level = chart.latest(_lab(self.constants.a1c, "HbA1c"))
        answers: tuple[list[Any], ...] = (NO_RESULT if level is None else [level.value, Instant(level.text)], [])
        if level is not None and not level.before(
            self.constants.a1c_start, f"older than {self.constants.a1c_interval}"
        ):
            return nothing(*answers)
        test = Code(self.constants.a1c_test, LOINC, "HbA1c")
        return order(lab_test(test, priority="stat"), answers=answers)


TYPES: dict[str, type[MabType]] = {kind.name: kind for kind in MabType.__subclasses__()}
"""The types by id."""
