"""Writes a set of twins of questions: each question over its chart, and over one that does not contain the answer.

The second chart lacks the resources that the answer rests on, all others of the patient with the same code (for types
without codes: all of the type), and whatever was derived from them. Stays, locations and the hospital's drugs remain,
so questions that rest on them are without a twin.
"""

from __future__ import annotations

import base64
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fhir_server.synthetic.bundled import PROFILE
from medagent.benchmarks.clinical.twins import TwinItem, Twins, check_originals, copy_patients, twins_of
from medagent.benchmarks.fhiragentbench import _chart_lookup as chart_lookup
from medagent.benchmarks.fhiragentbench._items import digest_of
from medagent.benchmarks.fhiragentbench._patients import patients_file
from medagent.benchmarks.fhiragentbench.generator._charts import Chart
from medagent.benchmarks.fhiragentbench.generator.wording import read
from medagent.benchmarks.fhiragentbench.sets import (
    FHIR_AGENTBENCH,
    QUESTIONS,
    SYNTHETIC,
    manifest_of,
    questions_of,
)
from medagent.benchmarks.fhiragentbench.settings import FhirAgentBenchSettings
from medagent.benchmarks.generated_sets import HOSPITAL, file_digests, write_manifest
from medagent.core.tell import Tell, untold
from medagent.engine.data_sets import Generation, SetManifest
from medagent.fhir_data.store import stored_lines
from refsol.clinical.pairs import Pair
from refsol.clinical.searches import ref
from refsol.clinical.sources import Amendment, Resource
from refsol.fhiragentbench import NOT_IN_RECORD, Question, questions_text
from refsol.json_values import as_object, objects
from refsol.resources import codes

LINE = f'If the record does not contain the answer, answer "{NOT_IN_RECORD}".'
"""The line in the prompts of both twins, which no other set contains."""
_UNCHANGED_TYPES = ("Patient", "Encounter", "Location")
_NOT_EMPTY = re.compile(r"Has_verb|Is |Count|How often|How many (?!\[)|What (?:is the sum|was the total)")
"""The beginning of templates whose answer over an empty chart is 0 or no."""
_NAMED = re.compile(r"_name\d?\}|weight|height")
_NOW = "2000-01-01"
"""Any time: whether there is an answer does not depend on it."""
_TIME = re.compile(r"T(\d\d:\d\d)")


@dataclass(frozen=True, slots=True)
class _Task:
    """A question, as `twins_of` needs it."""

    question: Question

    @property
    def id(self) -> str:
        return self.question.id

    @property
    def type(self) -> str:
        return self.question.family

    @property
    def amendment(self) -> Amendment:
        return self.question.change


def write(source: FhirAgentBenchSettings, folder: Path, *, triples: bool = False, tell: Tell = untold) -> Twins[_Task]:
    """Write the twins of a source's questions into a folder. Raises UserError, InputError."""
    questions, manifest = questions_of(source.dataset), manifest_of(source.dataset)
    tasks = [_Task(question) for question in questions]
    check_originals(tasks)
    patients = patients_file(source).path
    charts = _Charts(stored_lines(patients))
    twins = twins_of(
        tasks,
        lambda task: charts.twins(task.question),
        triples=triples,
        tell=tell,
    )
    if source.dataset != SYNTHETIC or source.ehr is not None:
        copy_patients(patients, folder)
    text = questions_text([_question(item) for item in twins.items])
    (folder / QUESTIONS).write_text(text, encoding="utf-8", newline="\n")
    digest = digest_of(questions)
    generated = manifest.generated if manifest and manifest.generated else None
    generated = generated or Generation.of_twins(digest, len(charts.patients))
    write_manifest(
        folder,
        SetManifest(
            name=f"{'triples' if triples else 'twins'}-{digest[:12]}",
            benchmark=FHIR_AGENTBENCH,
            clock=manifest.clock if manifest else PROFILE.now,
            files=file_digests(folder, (HOSPITAL, QUESTIONS)),
            generated=generated.twins(digest),
        ),
    )
    return twins


def _question(item: TwinItem[_Task]) -> Question:
    question = item.task.question
    words = f"{question.assumption} {LINE}".strip()
    twin = replace(question, id=item.id, twin=item.twin, assumption=words)
    if not item.change:
        return twin
    removed: dict[str, list[str]] = {}
    for reference in map(str, item.change):
        kind, _, name = reference.partition("/")
        removed.setdefault(kind, []).append(name)
    return replace(twin, true_answer="[]", true_ids={}, removed=removed)


class _Charts:
    """The resources of each patient, and those that patients share."""

    def __init__(self, lines: Iterator[str]) -> None:
        self.patients: dict[str, list[Resource]] = defaultdict(list)
        self._shared: dict[str, list[Resource]] = defaultdict(list)
        for line in lines:
            resource = json.loads(line)
            owner = resource["id"] if resource["resourceType"] == "Patient" else _patient(resource)
            (self.patients[owner] if owner else self._shared[resource["resourceType"]]).append(resource)
        self._by_ref = {
            ref(resource): resource
            for resources in (*self.patients.values(), *self._shared.values())
            for resource in resources
        }

    def twins(self, question: Question) -> list[Pair] | str:
        """The twin of a question, or the reason why there is none."""
        kinds = set(question.true_ids)
        if not any(question.true_ids.values()):
            return "does not have an answer in the record"
        if kinds & set(_UNCHANGED_TYPES):
            return "rests on the patient, a stay or a location"
        if _NOT_EMPTY.match(question.template):
            return "asks for a count, a sum, or yes or no"
        listed = {f"{kind}/{resource_id}" for kind, ids in question.true_ids.items() for resource_id in ids}
        if not listed <= self._by_ref.keys():
            return "the patients' file lacks what answers it"
        chart = self.patients[question.patient]
        answering = [resource for resource in chart if ref(resource) in listed]
        if any(map(codes, answering)) and not _NAMED.search(question.template):
            return "other resources could answer it"
        removed = self._with_derived(self._alike(answering, chart, question), chart, question)
        if any(ref(resource) in removed for resource in chart if resource["resourceType"] in _UNCHANGED_TYPES):
            return "a stay or the patient refers to what answers it"
        rest = [resource for resource in chart if ref(resource) not in removed]
        if self._is_answered(question, rest):
            return "other resources could answer it"
        return [Pair([ref(resource) for resource in chart if ref(resource) in removed], "in the record", NOT_IN_RECORD)]

    def _alike(self, answering: Sequence[Resource], chart: Sequence[Resource], question: Question) -> list[Resource]:
        """All resources with the code of a listed one, or for a question about a specimen, of the same specimen."""
        by_specimen = "{spec_name}" in question.template
        keys = {key for resource in answering for key in self._keys(resource, by_specimen=by_specimen)}
        return [resource for resource in chart if keys.intersection(self._keys(resource, by_specimen=by_specimen))]

    def _keys(self, resource: Resource, *, by_specimen: bool) -> Iterator[tuple[str, ...]]:
        """What is the same for resources that could answer the same question."""
        kind = str(resource["resourceType"])
        yield from ((kind, code) for code in codes(resource) or ("",))
        specimen = self._by_ref.get(str(as_object(resource.get("specimen")).get("reference")), {})
        if by_specimen and specimen:
            yield from ((kind, "specimen", name) for name in _words(specimen.get("type")))

    def _with_derived(self, alike: Sequence[Resource], chart: Sequence[Resource], question: Question) -> set[str]:
        """The references of resources, of their members, of all that refers to them, and of what repeats them."""
        removed = {ref(resource) for resource in alike}
        removed |= {
            member for resource in alike for member in _references(resource.get("hasMember")) if member in self._by_ref
        }
        links = {ref(resource): set(_references(resource)) for resource in chart}
        more = True
        while more:
            derived = {name for name, links_ in links.items() if name not in removed and removed & links_}
            more = bool(derived)
            removed |= derived
        quotes = _Quotes([self._by_ref[name] for name in removed], self._by_ref, question)
        return removed | {ref(resource) for resource in chart if quotes.is_in(resource)}

    def _is_answered(self, question: Question, rest: Sequence[Resource]) -> bool:
        """Whether a chart answers a question. False for a question that the generator did not make."""
        lookup = read(question.question)
        if lookup is None:
            return False
        chart = Chart(question.patient, self._shared)
        for resource in rest:
            chart.add(dict(resource))
        entries = chart_lookup.entries(lookup, _NOW, chart.resources(lookup))
        return bool(chart_lookup.answer(lookup, _NOW, entries)[0])


class _Quotes:
    """What repeats resources: reports of the same sample; reports and notes with a name, a time of day, or a value with
    its unit; orders and billed procedures whose name the question contains.
    """

    def __init__(self, resources: Sequence[Resource], by_ref: Mapping[str, Resource], question: Question) -> None:
        self._times = {resource.get("effectiveDateTime") for resource in resources} - {None}
        self._asked = set(_long_words(question.question))
        texts = {text for resource in resources for text in _repeatable(resource, by_ref)}
        words = "|".join(re.escape(text).replace("/", r"\s*/") for text in sorted(texts) if text)
        self._pattern = re.compile(rf"(?<![\w.])(?:{words})(?!\w)", re.IGNORECASE)

    def is_in(self, resource: Resource) -> bool:
        """Whether a resource repeats them."""
        if resource["resourceType"] in ("Procedure", "ServiceRequest"):
            return bool(self._asked.intersection(_long_words(*_words(resource.get("code")))))
        if resource["resourceType"] == "DiagnosticReport" and resource.get("effectiveDateTime") in self._times:
            return True
        texts = _texts(resource) if resource["resourceType"] in ("DiagnosticReport", "DocumentReference") else ()
        return any(self._pattern.search(text) for text in texts)


def _repeatable(resource: Resource, by_ref: Mapping[str, Resource]) -> Iterator[str]:
    """The texts by which a note repeats a resource."""
    drug = by_ref.get(str(as_object(resource.get("medicationReference")).get("reference")), {})
    for concept in (resource.get("code"), resource.get("medicationCodeableConcept"), drug.get("code")):
        yield from _words(concept)
    quantity = as_object(resource.get("valueQuantity"))
    if "value" in quantity:
        yield f"{quantity['value']}{quantity.get('unit', '')}"
    yield str(resource.get("valueString", "")).partition(" ")[0]
    yield from _TIME.findall(json.dumps(resource))


def _patient(resource: Resource) -> str:
    """The id of the patient that a resource is about. Empty if there is none."""
    about = next((resource[name] for name in ("subject", "patient", "beneficiary") if name in resource), None)
    kind, _, name = str(as_object(about).get("reference")).rpartition("/")
    return name if kind.endswith("Patient") else ""


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(text := value.get("reference"), str):
            yield text
        for member in value.values():
            yield from _references(member)
    elif isinstance(value, list):
        for element in value:
            yield from _references(element)


def _words(concept: Any) -> Iterator[str]:
    """The text, codes and names of a concept."""
    known = as_object(concept)
    every = [known, *objects(known.get("coding"))]
    yield from (str(part[name]) for part in every for name in ("text", "code", "display") if name in part)


def _long_words(*texts: str) -> list[str]:
    """The words of texts in lower case, without short ones such as `the`."""
    return [word for text in texts for word in re.findall(r"[a-z]{4,}", text.lower())]


def _texts(resource: Resource) -> Iterator[str]:
    yield str(resource.get("conclusion") or "")
    for content in objects(resource.get("content")):
        attachment = as_object(content.get("attachment"))
        yield base64.b64decode(str(attachment.get("data") or "")).decode("utf-8", "replace")
