"""The five published strategies as data: the tools with their published names and schemas, and the order of calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from medagent.models.base import Tool

TYPES = (
    "Patient",
    "Encounter",
    "Condition",
    "MedicationRequest",
    "Procedure",
    "Observation",
    "MedicationAdministration",
    "Location",
    "Specimen",
    "Medication",
)
"""The resource types that the prompts name."""
TURNS = 30
"""The most model calls of a strategy with many turns."""


def _tool(name: str, description: str, properties: Mapping[str, object], *required: str) -> Tool:
    return Tool(name, description, {"type": "object", "properties": dict(properties), "required": list(required)})


REQUEST = _tool(
    "fhir_request_get",
    "FHIR GET request",
    {"query_string": {"type": "string", "description": "FHIR query string"}},
    "query_string",
)
BY_ID = _tool(
    "get_resources_by_resource_id",
    "Get FHIR resources by resource ID",
    {
        "resource_type": {"type": "string", "description": "FHIR resource type"},
        "resource_id": {"type": "string", "description": "FHIR resource ID"},
    },
    "resource_type",
    "resource_id",
)
BY_PATIENT = _tool(
    "get_resources_by_patient_fhir_id",
    "Get FHIR resources by patient FHIR ID",
    {
        "resource_type": {"type": "string", "description": "FHIR resource type"},
        "patient_fhir_id": {"type": "string", "description": "Patient FHIR ID"},
    },
    "resource_type",
    "patient_fhir_id",
)
PROGRAM = _tool(
    "execute_python_code",
    "Execute Python code with access to retrieved_resources and capture both stdout and answer variable. When "
    "comparing or calculating differences between dates, make sure to set both dates to timezone-naive so the "
    "comparison works without code failure.",
    {
        "code": {
            "type": "string",
            "description": "Python code to execute. Use 'answer' variable to store final result.",
        },
        "timeout": {"type": "integer", "description": "Timeout in seconds", "default": 30},
    },
    "code",
)
SEARCH = _tool(
    "search",
    "Reads all pages of a search. For the benchmark's own agents; no model is offered it.",
    {"query": {"type": "string", "description": "FHIR query string"}},
    "query",
)


@dataclass(frozen=True, slots=True)
class Strategy:
    """One strategy. `code`: resources are passed to programs, and the model sees only their counts.

    `expected` are the names of the tools that may be called, in the order of the published error text. By default they
    are the tools that are offered.
    """

    name: str
    tools: tuple[Tool, ...]
    many_turns: bool = False
    code: bool = False
    expected: tuple[str, ...] = ()

    def offered(self, turn: int) -> tuple[Tool, ...]:
        """The tools of a model call. Turns are counted from 0."""
        if self.many_turns:
            return (*self.tools, PROGRAM) if self.code else self.tools
        phases: tuple[tuple[Tool, ...], ...] = (self.tools, (PROGRAM,), ()) if self.code else (self.tools, ())
        return phases[turn]

    def unknown(self, turn: int, name: str) -> str:
        """The text that ends an episode if an unexpected tool was called. Empty if the tool may be called."""
        names = self.expected or tuple(tool.name for tool in self.offered(turn))
        listed = " or ".join(f"'{one}'" for one in names)
        return "" if name in names else f"Expected {listed} tool call, but got '{name}'"


_RESOURCE = (BY_PATIENT.name, BY_ID.name)
STRATEGIES: Mapping[str, Strategy] = {
    one.name: one
    for one in (
        Strategy("single_turn_request", (REQUEST,)),
        Strategy("single_turn_resource", (BY_PATIENT,), expected=_RESOURCE),
        Strategy("single_turn_code_resource", (BY_PATIENT,), code=True),
        Strategy("multi_turn_resource", (BY_ID, BY_PATIENT), many_turns=True, expected=_RESOURCE),
        Strategy(
            "multi_turn_code_resource",
            (BY_ID, BY_PATIENT),
            many_turns=True,
            code=True,
            expected=(PROGRAM.name, *_RESOURCE),
        ),
    )
}
