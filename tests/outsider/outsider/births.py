"""Births: a benchmark with a FHIR session over patients of its own, an agent that reads, and one that guesses."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

from medagent import Agent, EpisodeRow, FhirBenchmark, FhirItem, FhirSettings, FhirTask, Grader, Item, Score

PATIENTS = Path(__file__).with_name("patients.ndjson")


class Births(FhirBenchmark[FhirSettings]):
    """Years in which patients were born."""

    name = "births"
    Settings = FhirSettings
    ehr_file = PATIENTS

    def items(self, source: Any) -> list[FhirItem]:
        patients = [json.loads(line) for line in PATIENTS.read_text("utf-8").splitlines()]
        return [
            FhirItem(
                id=patient["id"],
                group=patient["gender"],
                question=f"In which year was the patient with the id {patient['id']} born?",
                target=json.dumps([int(patient["birthDate"][:4])]),
                mrn=patient["id"],
            )
            for patient in patients
        ]

    def grader(self, source: Any, rules: str) -> Grader[EpisodeRow]:
        return BirthsGrader()


class BirthsGrader(Grader[EpisodeRow]):
    """Right is the list with the year."""

    def score(self, item: Item, row: EpisodeRow, judged: object = None) -> Score:
        right = row.answer == item.target
        return Score(correct=right, reason="" if right else f"expected {item.target}, not {row.answer}")


class Reader(Agent):
    """Asks for the patient."""

    def play(self, task: FhirTask, prompt: str) -> Generator[str, str, None]:
        reply = yield f"GET {self.context.base}Patient?_id={task.mrn}"
        bundle = json.JSONDecoder().raw_decode(reply, reply.index("{"))[0]
        yield f"FINISH([{bundle['entry'][0]['resource']['birthDate'][:4]}])"


class Guesser(Agent):
    """Asks for nothing."""

    def play(self, task: FhirTask, prompt: str) -> Generator[str, str, None]:
        yield "FINISH([1950])"
