"""The options of FHIR-AgentBench, in addition to the options of every benchmark with a FHIR session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from medagent.benchmarks.fhiragentbench.sets import SYNTHETIC
from medagent.benchmarks.fhiragentbench.strategies.plan import STRATEGIES, Strategy
from medagent.benchmarks.fhiragentbench.strategies.prompts import checkout_of
from medagent.core.errors import UserError
from medagent.core.options import ALL_USES, Names, Option, RunOption, Setting
from medagent.engine.settings import RUN, WHICH, WHO, Count, RunSettings
from medagent.fhir_episodes.reads import Handling
from medagent.fhir_episodes.session import Loop, SessionRules
from medagent.fhir_episodes.settings import CODE, RECORD, FhirSettings
from medagent.judging.panel import Panel, PanelSettings
from medagent.judging.rubric import BUNDLED, Rubric
from medagent.models.settings import ModelSettings
from refsol.fhiragentbench import FAMILIES, RuleName

AGENTS = ("text", "reference", "nop", "yes", "fetch-all")
GRADING = "FHIR-AgentBench"
ROUNDS = 30
"""The default for --max-rounds: the number of model calls of the published strategies."""
A2A = "a2a"
"""The name of the bundled judge prompt of the rule set `a2a`."""
NO_TEMPERATURE = "o4-mini"
"""A model that does not accept a temperature."""
Found = Literal["last", "all"]
NO_CAP = "none"


class FhirAgentBenchSettings(FhirSettings, PanelSettings):
    """The options of `medagent run fhir-agentbench`."""

    agents: ClassVar[tuple[str, ...]] = AGENTS
    ways: ClassVar[Mapping[str, str]] = {
        **FhirSettings.ways,
        "strategy": "a published strategy: --protocol multi_turn_resource",
        "strategy_in_code": "a published code strategy: --protocol multi_turn_code_resource",
    }

    protocol: Annotated[
        Literal[
            "text",
            "tools",
            "code",
            "single_turn_request",
            "single_turn_resource",
            "single_turn_code_resource",
            "multi_turn_resource",
            "multi_turn_code_resource",
        ],
        Option(WHO, metavar="NAME", kind="value"),
    ] = "text"  # type: ignore[assignment]  # more protocols than the base has
    """With --model: text, tools (tool calling), code (Python programs in a sandbox), or a published strategy:
    single_turn_request, single_turn_resource, single_turn_code_resource, multi_turn_resource,
    multi_turn_code_resource.
    """
    max_rounds: Annotated[Count, Option(WHO, kind="value", for_=("run", "episode"))] = ROUNDS
    """The most messages of an agent. The published strategies use their own limits."""
    fhir: Annotated[str | None, Option(RECORD, kind="address")] = None
    """The base URL of a FHIR server to use instead of the embedded one."""
    dataset: Annotated[str, Option(WHICH, kind="path", for_=ALL_USES)] = SYNTHETIC
    """synthetic (bundled), published (after medagent data import questions.csv), a question file, or a folder made by
    medagent data new --like fhir-agentbench.
    """
    handling: Annotated[Handling, Option(RECORD, kind="value")] = "strict"
    """How to handle search parameters that a resource type does not support: strict (HAPI's error 400), lenient (drop
    them, as Google's server does; use it to compare with published scores), or corrected (send id, and patient of a
    Patient, as _id).
    """
    found: Annotated[Found | None, Option(GRADING, kind="value")] = None
    """Which ids count as found: last (for each type, the ids of its last call; the default for published strategies) or
    all (the default otherwise).
    """
    rule_set: Annotated[RuleName, Option(GRADING, flag="rules", kind="value", for_=ALL_USES)] = "published"
    """The rule set: published (recall is 0 or 1), paper (recall is a share), or a2a (recall is a share; one judge call
    per answer).
    """
    input_cap: Annotated[
        str,
        RunOption(WHO, metavar="N|none", kind="value", needs="strategy"),
        Field(pattern=r"^(none|[1-9]\d*)$"),
    ] = "32000"
    """With a published strategy: the most input tokens (cl100k) of a model call, or none. Above it no call is made."""
    code_returns: Annotated[bool, RunOption(CODE, kind="value", needs="strategy_in_code")] = False
    """With a published code strategy: return what a program prints, and not only its variable `answer`."""
    split: Annotated[Names, RunOption(WHICH, "place", metavar="NAME,NAME", kind="value")] = ()
    """Only these splits (train, valid, test), if the question file contains the column."""
    family: Annotated[Names, RunOption(WHICH, "place", metavar="NAME,NAME", kind="value")] = ()
    """Only these families, e.g. vital-signs,icu-stays."""
    template: Annotated[list[str], RunOption(WHICH, "place", metavar="TEXT", kind="value")] = Field(
        default_factory=list
    )
    """Only questions whose template contains this text; repeatable."""
    yes: Annotated[bool, RunOption(RUN, "effort", kind="value")] = False
    """Confirm that credentialed patients may be sent to the model's provider. Needed without a terminal."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.strategy and self.agent not in (None, "text"):
            raise UserError(f"--protocol {self.protocol} is for a model that acts by itself: leave --agent out")
        if unknown := [name for name in self.family if name not in FAMILIES]:
            raise UserError(f"--family: unknown family {unknown[0]!r}; known: {', '.join(FAMILIES)}")
        return self

    @property
    def strategy(self) -> Strategy | None:
        """The published strategy, if the protocol is one."""
        return STRATEGIES.get(self.protocol)

    @property
    def strategy_in_code(self) -> bool:
        """Whether the protocol is a published strategy whose agents act in code."""
        return self.strategy is not None and self.strategy.code

    @property
    def prompt_file(self) -> Path | None:
        """See `FhirSettings.prompt_file`. `published=DIR` names a system prompt, not a file."""
        return None if checkout_of(self.prompt) else self.prompt

    @property
    def found_in_effect(self) -> Found:
        """The option --found, or its default for the protocol."""
        return self.found or ("last" if self.strategy else "all")

    @property
    def loop_in_effect(self) -> Loop | None:
        """See `FhirSettings`. The published agents do not use a text protocol, so the default is lenient."""
        return self.loop or "lenient" if self.acts_by_text else None

    @property
    def session_rules(self) -> SessionRules:
        """See `FhirSettings.session_rules`. With `handling`, reads are recorded. A message that is not an action ends
        the episode, as in the runs that this benchmark's scores come from.
        """
        loop = self.loop_in_effect or "lenient"
        return replace(super().session_rules, loop=loop, hints=False, handling=self.handling)

    @property
    def acts_in_code(self) -> bool:
        return super().acts_in_code or self.strategy_in_code

    @property
    def cap(self) -> int | None:
        """The cap of a published strategy in tokens, or None."""
        return None if self.input_cap == NO_CAP else int(self.input_cap)

    @property
    def chat(self) -> ModelSettings | None:
        """See `RunSettings.chat`. No temperature is sent to a model that accepts none, unless --temperature is set."""
        chat = super().chat
        bare = chat is not None and chat.name == NO_TEMPERATURE and "temperature" not in self.model_fields_set
        return chat.model_copy(update={"temperature": None}) if chat and bare else chat

    def judges(self, run: RunSettings) -> list[ModelSettings]:
        """See `PanelSettings.judges`. No temperature is sent to a judge that accepts none."""
        return [
            judge.model_copy(update={"temperature": None}) if judge.name == NO_TEMPERATURE else judge
            for judge in super().judges(run)
        ]

    def panel(self, rubric: Rubric[Any], run: RunSettings) -> Panel[Any]:
        """See `PanelSettings.panel`. The rule set reads the replies, and `a2a` uses its own prompt."""
        named = self
        if self.rule_set == "a2a" and self.judge_prompt == BUNDLED:
            named = self.model_copy(update={"judge_prompt": A2A})
        return replace(PanelSettings.panel(named, rubric, run), rule=self.rule_set)

    def decides(self) -> dict[str, Setting]:
        return {**super().decides(), "found": self.found_in_effect, "code-returns": self.code_returns or None}
