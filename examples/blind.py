"""An agent that never reads the record, to see how it scores.

    medagent run --agent examples/blind.py:Blind
    medagent run --agent examples/blind.py:Blind --agent-arg age=44 --round guess

It copies values from the task's text, always orders an HbA1c, and gives every query the same answer. None of its items
that need a reading can be grounded, even if they are right. `baseline blind` in the tables is the best such agent for
the data set.
"""

import json
import re

import medagent

ANSWERS = {"task1": ["Patient not found"], "task4": [-1], "task6": [-1], "task7": [-1]}


class Blind(medagent.Agent):
    """Orders what the text states. `age` is its answer for every patient's age."""

    def __init__(self, context=None, age=60):
        super().__init__(context)
        self.age = age

    def play(self, task, prompt):
        """Yield the order that the text states, if there is one, and an answer."""
        words = f"{task.context}\n{task.instruction}"
        moment = re.search(r"\d{4}-\d{2}-\d{2}T[\d:]+[+-][\d:]+", words)
        self.now = moment[0] if moment else ""
        if task.type == "task3":
            yield self.post(task, self.pressure(words))
        elif task.type == "task8":
            text = re.search(r"Situation:.*recommendations\.", words, re.DOTALL)
            code = re.search(r"SNOMED\D*(\d{6,})", words)
            yield self.post(task, self.order("http://snomed.info/sct", code[1], note={"text": text[0]}))
        elif task.type == "task10":
            code = re.search(r"LOINC\D*(\d+-\d)", words)
            yield self.post(task, self.order("http://loinc.org", code[1]))
        answer = [self.age] if task.type == "task2" else ANSWERS.get(task.type, [])
        yield f"FINISH({json.dumps(answer)})"

    def post(self, task, body):
        """The POST of a resource for the patient of the text."""
        body["subject"] = {"reference": f"Patient/{task.mrn}"}
        return f"POST {self.context.base}{body['resourceType']}\n{json.dumps(body)}"

    def order(self, system, code, **more):
        """A service request."""
        return {
            "resourceType": "ServiceRequest",
            "code": {"coding": [{"system": system, "code": code}]},
            "authoredOn": self.now,
            "status": "active",
            "intent": "order",
            "priority": "stat",
            **more,
        }

    def pressure(self, words):
        """The blood pressure of the text."""
        system = "http://hl7.org/fhir/observation-category"
        vital = {"system": system, "code": "vital-signs", "display": "Vital Signs"}
        return {
            "resourceType": "Observation",
            "category": [{"coding": [vital]}],
            "code": {"text": re.search(r"flowsheet ID(?: for blood pressure is)? (\w+)", words)[1]},
            "effectiveDateTime": self.now,
            "status": "final",
            "valueString": re.search(r"\d+/\d+ mmHg", words)[0],
        }
