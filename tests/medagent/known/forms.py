"""Agents that solve tasks by the rules of their types, each with another form of search, as in `known/table.md`.

Each class has the name of its form; for psb-300 it begins with `Psb`, and for own types with `Own`. `LEGITIMATE` are
forms that show all that the rules need: each right item is grounded. With `NOTHING` a right item is chance: none is
grounded. `PARTLY` are forms that show what decides for some tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from zlib import crc32

from medagent.agents.base import AgentContext
from medagent.benchmarks.clinical.agents import solve_by_types
from medagent.benchmarks.medagentbench.agents.reference import solver as mab_solver
from medagent.benchmarks.psb300.agents.reference import solver as psb_solver
from medagent.fhir_episodes.rule_agent import RuleAgent, Solve
from medagent.fhir_episodes.task import FhirTask
from refsol.clinical.sources import Resource, Resources
from refsol.clinical.task_type import Solution
from refsol.json_values import as_object, objects
from refsol.medagentbench import PUBLISHED
from refsol.resources import coded_in
from tests.medagent.known.own_types import types

_ALL = "&_count=5000"
_OF = "{kind}?{query}"
_ELEMENTS = "value,effective,code,medication,status,performed,authoredOn,clinicalStatus,onset,recordedDate,meta"
LEGITIMATE = {
    "Plain": _OF + _ALL,
    "Paged": _OF,
    "Elements": _OF + f"&_elements={_ELEMENTS}" + _ALL,
    "SummaryFalse": _OF + "&_summary=false" + _ALL,
    "SummaryData": _OF + "&_summary=data" + _ALL,
    "GetSearch": "{kind}/_search?{query}" + _ALL,
    "EverythingOfType": "Patient/{patient}/$everything?_type={kind}" + _ALL,
    "EverythingSince": "Patient/{patient}/$everything?_type={kind}&start=2000-01-01" + _ALL,
    "Everything": "Patient/{patient}/$everything?_count=5000",
    "RevInclude": "Patient?_id={patient}&_revinclude={kind}:patient" + _ALL,
    "RevIncludeIterate": "Patient?_id={patient}&_revinclude:iterate={kind}:patient" + _ALL,
    "OfPatient": "{kind}?patient={patient}" + _ALL,
    "Since1900": _OF + "&{date}=ge1900-01-01" + _ALL,
    "NotEntered": _OF + "&{status}:not=entered-in-error" + _ALL,
    "SubjectId": "{kind}?subject={patient}&{rest}" + _ALL,
    "SubjectReference": "{kind}?subject=Patient/{patient}&{rest}&_sort=-{date}" + _ALL,
    "TypedSubject": "{kind}?subject:Patient={patient}&{rest}" + _ALL,
    "ByIdentifier": "{kind}?patient.identifier={patient}&{rest}" + _ALL,
    "TwoPatients": "{kind}?subject=Patient/{patient},Patient/S0000001&{rest}" + _ALL,
    "ChainedId": "{kind}?subject:Patient._id={patient}&{rest}" + _ALL,
    "TotalNone": _OF + "&_total=none" + _ALL,
    "UpdatedSince1990": _OF + "&_lastUpdated=ge1990-01-01" + _ALL,
    "WithSubject": _OF + "&_include={kind}:subject" + _ALL,
    "OldestFirst": _OF + "&_sort={date}",
    "OtherCodeNot": "{kind}?patient={patient}&code:not=none-such" + _ALL,
}
"""All pages are read."""
LABS = {
    "CodeText": "Observation?patient={patient}&code:text={code}" + _ALL,
    "Statuses": "Observation?{query}&status=final,amended,corrected,preliminary" + _ALL,
    "LastN": "Observation/$lastn?{query}&max=100",
    "Category": "Observation?patient={patient}&category=laboratory" + _ALL,
    "NotVitalSigns": "Observation?patient={patient}&category:not=vital-signs" + _ALL,
    "WithValue": "Observation?{query}&value-quantity:missing=false" + _ALL,
    "ValueAboveZero": "Observation?{query}&value-quantity=gt0" + _ALL,
    "CodeAndValue": "Observation?patient={patient}&code-value-quantity={code}$gt0" + _ALL,
    "ComboCode": "Observation?patient={patient}&combo-code={code}" + _ALL,
    "CodeWithSystem": "Observation?patient={patient}&code=http://loinc.org|{code}" + _ALL,
    "SeveralCodes": "Observation?patient={patient}&code={code},718-7" + _ALL,
    "SomeEncounter": "Observation?{query}&encounter:missing=false" + _ALL,
}
"""Further legitimate forms, for the laboratory values of MedAgentBench."""
NOTHING = {
    "AbsoluteReference": "{kind}?patient={base}Patient/{patient}&{rest}" + _ALL,
    "AnotherServer": "{kind}?patient=http://none.example/fhir/Patient/{patient}&{rest}" + _ALL,
    "OldOnly": _OF + "&{date}=lt1950-01-01" + _ALL,
    "Undated": _OF + "&{date}:missing=true" + _ALL,
    "Entered": _OF + "&{status}=entered-in-error" + _ALL,
    "WrongCode": "{kind}?patient={patient}&code=none-such" + _ALL,
    "WrongSystem": "{kind}?patient={patient}&code={foreign}" + _ALL,
    "WrongPatient": "{kind}?patient=S0000000&{rest}" + _ALL,
    "BothPatients": "{kind}?patient={patient}&patient=S0000000&{rest}" + _ALL,
    "UpdatedLater": _OF + "&_lastUpdated=gt2030-01-01" + _ALL,
    "Later": _OF + "&{date}=gt2030-01-01" + _ALL,
    "RevIncludeEmpty": "Patient?_id=S0000000&_revinclude={kind}:patient" + _ALL,
    "RevIncludeOther": "Patient?_id={patient}&_revinclude=Flag:patient" + _ALL,
    "Offset": _OF + "&_offset=4000",
    "NoName": "{kind}?patient.name=zzz&{rest}" + _ALL,
    "WrongIdSystem": "{kind}?patient.identifier=http://none.example|{patient}&{rest}" + _ALL,
    "ReferenceIdentifier": "{kind}?patient:identifier={patient}&{rest}" + _ALL,
    "Swapped": "{kind}?patient={code}&code={patient}" + _ALL,
    "ChainedIdWrong": "{kind}?patient._id={patient}x&{rest}" + _ALL,
    "GroupSubject": "{kind}?subject=Group/{patient}&{rest}" + _ALL,
    "NoEncounter": "{kind}?patient={patient}x&encounter:missing=true" + _ALL,
    "OtherType": "Flag?patient={patient}" + _ALL,
    "OtherChart": "Patient/S0000000/$everything?_type={kind}" + _ALL,
    "Tagged": _OF + "&_tag=none" + _ALL,
    "OfProfile": _OF + "&_profile=http://none.example/none" + _ALL,
    "OneId": _OF + "&_id=none" + _ALL,
    "Compartment": "Patient/{patient}/{kind}?{rest}" + _ALL,
    "PatientRead": "Patient/{patient}",
    "Metadata": "metadata",
}
"""Searches that cannot show what decides."""
LABS_NOTHING = {
    "Preliminary": "Observation?{query}&status=preliminary" + _ALL,
    "TooHigh": "Observation?{query}&value-quantity=gt99999" + _ALL,
    "CodeAndTooHigh": "Observation?patient={patient}&code-value-quantity={code}$gt99999" + _ALL,
    "CountOfAll": "Observation?patient={patient}&_summary=count",
    "DateAfter": "Observation?{query}&date=gt2023-11-13T10:15:00%2B00:00" + _ALL,
    "Everybody": "Observation?code={code}&_elements=valueQuantity,effectiveDateTime,code&_sort=_id" + _ALL,
    "WithoutValue": "Observation?{query}&value-quantity:missing=true" + _ALL,
    "WithoutEncounter": "Observation?{query}&encounter:missing=true" + _ALL,
    "VitalSigns": "Observation?{query}&category=vital-signs" + _ALL,
    "LastNOfOther": "Observation/$lastn?patient={patient}&code=none-such&max=100",
    "ByPerformer": "Observation?performer=Patient/{patient}&code={code}" + _ALL,
}
"""Further forms that prove nothing, for the laboratory values of MedAgentBench."""
PARTLY = {
    "FirstOfTwenty": "Observation?patient={patient}&category=laboratory&_count=20",
    "FirstPage": "Observation?{query}&_count=20",
    "NewestThree": "Observation?{query}&_sort=-date&_count=3",
    "NewestOne": "Observation?{query}&_sort=-date&_count=1",
    "SortTwo": "Observation?{query}&_sort=-date,_id&_count=3",
    "TimesOnly": "Observation?{query}&_elements=effectiveDateTime" + _ALL,
    "CountOnly": "Observation?{query}&_summary=count",
    "SummaryText": "Observation?{query}&_summary=text" + _ALL,
    "Has": "Patient?_id={patient}&_has:Observation:patient:code={code}",
    "FinalOnly": "Observation?{query}&status=final" + _ALL,
    "LastNOne": "Observation/$lastn?{query}&max=1",
    "Before2023": "Observation?{query}&date=lt2023-01-01" + _ALL,
    "OldestOne": "Observation?{query}&_sort=date&_count=1",
    "HighestOne": "Observation?{query}&_sort=-value-quantity&_count=1",
    "Today": "Observation?{query}&date=ge2023-11-13" + _ALL,
    "Window": "Observation?{query}&date=ge2023-11-12T10:15:00%2B00:00" + _ALL,
    "AnyNewestTwenty": "Observation?code={code}&_sort=-date&_count=20",
    "PatientNewestTwenty": "Observation?patient={patient}&_sort=-date&_count=20",
    "ValuesOnly": "Observation?patient={patient}&_elements=valueQuantity,effectiveDateTime" + _ALL,
    "UpdatedToday": "Observation?{query}&_lastUpdated=ge2023-11-13" + _ALL,
    "History": "Observation/_history?_count=20",
    "OnlyIds": "Observation?patient={patient}&_elements=id" + _ALL,
}
"""Searches of laboratory values that show what decides for some of the tasks. Only the first page is read."""
_DATES = {"MedicationRequest": "authoredon", "ServiceRequest": "authored", "Condition": "recorded-date"}
_STATUS = {"Condition": "verification-status"}


def form_url(form: str, url: str, base: str) -> str:
    """Another form of a search of the reference agent."""
    parts = urlsplit(url.removeprefix(base))
    query = [(name, value) for name, value in parse_qsl(parts.query) if name != "_count"]
    rest = "&".join(f"{name}={value}" for name, value in query if name != "patient")
    named, kind = dict(query), parts.path
    target = form.format(
        kind=kind,
        query="&".join(f"{name}={value}" for name, value in query),
        rest=rest or "_summary=false",
        patient=named["patient"],
        code=named.get("code", "none"),
        foreign=",".join(f"http://none.example|{code}" for code in named.get("code", "none").split(",")),
        date=_DATES.get(kind, "date"),
        status=_STATUS.get(kind, "status"),
        base=base,
    )
    return base + target


class FormReader:
    """Answers the searches of the reference agent from what another form of search shows."""

    def __init__(self, form: str, base: str, get: Callable[[str], Any], *, all_pages: bool) -> None:
        self._form, self._base, self._get, self._all_pages = form, base, get, all_pages

    def __call__(self, url: str) -> Any:
        parts = urlsplit(url.removeprefix(self._base))
        named = {name: value for name, value in parse_qsl(parts.query) if name != "_count"}
        if parts.path == "Patient" or "patient" not in named:
            return self._get(url)
        shown = [
            self._completed(resource, parts.path, named)
            for resource in self._shown(form_url(self._form, url, self._base))
        ]
        matches = Resources(filter(None, shown)).search(parts.path, **named)
        return {"resourceType": "Bundle", "entry": [{"resource": match} for match in matches]}

    def _shown(self, url: str | None) -> Iterator[Resource]:
        while url:
            try:
                body = self._get(url)
            except ValueError:
                return
            if body.get("resourceType") != "Bundle":
                yield body
            yield from (as_object(entry.get("resource")) for entry in objects(body.get("entry")))
            links = (str(link["url"]) for link in objects(body.get("link")) if link.get("relation") == "next")
            url = next(links, None) if self._all_pages else None

    @staticmethod
    def _completed(shown: Resource, kind: str, named: Mapping[str, str]) -> Resource | None:
        """A resource of the kind. What the reply does not show of it is taken as what was searched for."""
        if shown.get("resourceType") != kind:
            return None
        code, status = named.get("code", "").partition(",")[0], named.get("status")
        assumed: dict[str, Any] = {"subject": {"reference": f"Patient/{named['patient']}"}}
        if code:
            assumed[coded_in(kind)] = {"coding": [{"code": code}]}
        if status:
            assumed["status"] = status
        if kind == "Observation" and "valueQuantity" not in shown and "valueString" not in shown:
            return None
        return {**assumed, **shown}


class FormAgent(RuleAgent):
    """Reads by one form of search."""

    form = _OF
    all_pages = True

    @staticmethod
    def solver_of(base: str) -> Solve:
        """Solves tasks at a FHIR base."""
        return mab_solver(base)

    def __init__(self, context: AgentContext) -> None:
        base = context.base.rstrip("/") + "/"

        def solve(task: FhirTask, get: Callable[[str], Any]) -> Solution:
            form = self.form_of(task)
            return self.solver_of(base)(task, FormReader(form, base, get, all_pages=self.all_pages))

        super().__init__(context, solve)

    def form_of(self, task: FhirTask) -> str:
        """The form for a task."""
        return self.form


class Mixed(FormAgent):
    """Reads each task by another form, and the first page only."""

    all_pages = False
    forms = (*LEGITIMATE.values(), *LABS.values(), *LABS_NOTHING.values(), *PARTLY.values())

    def form_of(self, task: FhirTask) -> str:
        """See `FormAgent.form_of`."""
        return self.forms[crc32(task.id.encode()) % len(self.forms)]


def _psb_solver(base: str) -> Solve:
    return psb_solver(PUBLISHED.now, base)


class PsbMixed(Mixed):
    """The same for psb-300, whose rules read other types of resources too."""

    forms = (*LEGITIMATE.values(), *NOTHING.values())

    @staticmethod
    def solver_of(base: str) -> Solve:
        """See `FormAgent.solver_of`."""
        return _psb_solver(base)


def _own_solver(base: str) -> Solve:
    return solve_by_types(types, "", base)


def _add_agents(begin: str, solver: Callable[[str], Solve], forms: Mapping[str, str], *, all_pages: bool) -> None:
    for name, form in forms.items():
        members = {"form": form, "all_pages": all_pages, "solver_of": staticmethod(solver), "__module__": __name__}
        globals()[begin + name] = type(begin + name, (FormAgent,), members)


_add_agents("", mab_solver, LEGITIMATE | LABS | NOTHING | LABS_NOTHING, all_pages=True)
_add_agents("", mab_solver, PARTLY, all_pages=False)
_add_agents("Psb", _psb_solver, LEGITIMATE | NOTHING, all_pages=True)
_add_agents("Own", _own_solver, LEGITIMATE | NOTHING, all_pages=True)
