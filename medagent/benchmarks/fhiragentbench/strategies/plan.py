"""The five published strategies as data: the tools with their published names and schemas, and the order of calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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


_FILE = Path(__file__).parents[1] / "prompts" / "strategy_tools.json"
REQUEST, BY_ID, BY_PATIENT, PROGRAM, SEARCH = (Tool(**tool) for tool in json.loads(_FILE.read_text(encoding="utf-8")))
"""The published tools. `SEARCH` is for the benchmark's own agents, and is offered to no model."""


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
        listed = " or ".join(f"'{name}'" for name in names)
        return "" if name in names else f"Expected {listed} tool call, but got '{name}'"


_RESOURCE = (BY_PATIENT.name, BY_ID.name)
STRATEGIES: Mapping[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
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
