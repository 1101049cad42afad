"""The options of FHIR-AgentBench, in addition to those of every benchmark with a FHIR session."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from medagent.benchmarks.fhiragentbench.sets import SYNTHETIC
from medagent.benchmarks.fhiragentbench.strategies.plan import STRATEGIES, Strategy
from medagent.core.errors import UserError
from medagent.core.options import Names, Option, Setting
from medagent.engine.benchmark import GradeOptions
from medagent.engine.settings import RUN, WHICH, WHO, RunSettings
from medagent.fhir_episodes.reads import Handling
from medagent.fhir_episodes.session import SessionRules
from medagent.fhir_episodes.settings import CODE, RECORD, DataSource, EpisodeSettings, FhirSettings
from medagent.judging.panel import JUDGES, Panel, PanelSettings
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


class QuestionSource(DataSource):
    """The options that select questions and patients, and how episodes are graded."""

    dataset: Annotated[str, Option(WHICH, kind="path")] = SYNTHETIC
    """synthetic (bundled), published (after medagent data import questions.csv), a question file, or a folder made by
    medagent data new --like fhir-agentbench.
    """
    handling: Annotated[Handling, Option(RECORD, kind="value")] = "strict"
    """How to handle search parameters that a resource type does not have: strict (HAPI's error 400), lenient (drop
    them, as Google's server does; use it to compare with published figures), or corrected (send id, and patient of a
    Patient, as _id).
    """
    found: Annotated[Found | None, Option(GRADING, kind="value")] = None
    """Which ids count as found: last (for each type those of its last call; the default for published strategies) or
    all (the default otherwise).
    """
    rule_set: Annotated[RuleName, Option(GRADING, flag="rules", kind="value")] = "published"
    """The rule set: published (recall is 0 or 1), paper (recall is a share), or a2a (recall is a share; one judge call
    per answer).
    """
    protocol: str | None = None

    @property
    def strategy(self) -> Strategy | None:
        """The published strategy, if the protocol is one."""
        return STRATEGIES.get(self.protocol or "")

    @property
    def found_in_effect(self) -> Found:
        """The option --found, or its default for the protocol."""
        return self.found or ("last" if self.strategy else "all")


class QuestionEpisodes(QuestionSource, EpisodeSettings):
    """The options of `medagent.episode`."""

    protocol: Annotated[Literal["text", "tools"], Option(WHO, kind="value")] = "text"
    """With --model: text or tools (tool calling)."""
    max_rounds: Annotated[int, Option(WHO, kind="value"), Field(ge=1)] = ROUNDS
    """The most messages of an agent. The published strategies have their own limits."""

    @property
    def loop_in_effect(self) -> Any:
        """See `EpisodeSettings`. The published agents have no text protocol, so the default is lenient."""
        return (self.loop or "lenient") if self.protocol == "text" else None

    @property
    def rules(self) -> SessionRules:
        """See `EpisodeSettings.rules`. With `handling`, reads are recorded."""
        return replace(super().rules, loop=self.loop_in_effect or "lenient", handling=self.handling)


class FhirAgentBenchSettings(FhirSettings, QuestionEpisodes, PanelSettings):
    """The options of `medagent run fhir-agentbench`."""

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
    max_rounds: Annotated[int, Option(WHO, kind="value"), Field(ge=1)] = ROUNDS
    """The most messages of an agent. The published strategies have their own limits."""
    agent: Annotated[str | None, Option(WHO, kind="code")] = None
    """text (a model; the default with --model), reference, nop, yes, fetch-all, or your own class, e.g.
    my_agent.py:MyAgent.
    """
    input_cap: Annotated[str, Option(WHO, metavar="N|none", kind="value"), Field(pattern=r"^(none|[1-9]\d*)$")] = (
        "32000"
    )
    """With a published strategy: the most input tokens (cl100k) of a model call, or none. Above it no call is made."""
    code_returns: Annotated[bool, Option(CODE, kind="value")] = False
    """With a published code strategy: return what a program prints, and not only its variable `answer`."""
    split: Annotated[Names, Option(WHICH, "place", metavar="NAME,NAME", kind="value")] = ()
    """Only these splits (train, valid, test), if the question file has the column."""
    family: Annotated[Names, Option(WHICH, "place", metavar="NAME,NAME", kind="value")] = ()
    """Only these families, e.g. vital-signs,icu-stays."""
    template: Annotated[list[str], Option(WHICH, "place", metavar="TEXT", kind="value"), Field(default_factory=list)]
    """Only questions whose template contains this text; repeatable."""
    judge: Annotated[list[str], Option(JUDGES, "place", kind="code"), Field(default_factory=list)]
    """A model that judges answers. Repeat it for a panel, which decides by majority. Without judges, a comparison
    decides only the clear cases.
    """
    yes: Annotated[bool, Option(RUN, "effort", kind="value")] = False
    """Confirm that credentialed patients may be sent to the model's provider. Needed if there is no terminal."""

    @model_validator(mode="after")
    def _idle_options(self) -> FhirAgentBenchSettings:
        """Refuse options that have no effect together with others."""
        own = self.agent in AGENTS and self.agent != "text"
        passed = self.model_fields_set
        idle = {
            "--model has no use with --agent other than text": self.model and own,
            f"--protocol {self.protocol} needs --model": self.protocol != "text" and self.model is None and not own,
            f"--protocol {self.protocol} is for a model that acts by itself: leave --agent out": self.strategy
            and self.agent not in (None, "text"),
            "--input-cap needs a published strategy: --protocol multi_turn_resource": "input_cap" in passed
            and self.strategy is None,
            "--code-returns needs a published code strategy: --protocol multi_turn_code_resource": self.code_returns
            and not (self.strategy and self.strategy.code),
            f"--loop has no meaning with --protocol {self.protocol}": self.loop and self.protocol != "text",
            "--ehr and --fhir both name the patients: leave one of them out": self.ehr and self.fhir,
            "--fhir-header and --ca-file need --fhir": (self.fhir_header or self.ca_file) and not self.fhir,
            "--cluster has its own workers: leave --workers out": self.cluster and self.workers,
            "--judge-prompt needs --judge": "judge_prompt" in passed and not self.judge,
        }
        for problem, applies in idle.items():
            if applies:
                raise UserError(problem)
        if unknown := [name for name in self.family if name not in FAMILIES]:
            raise UserError(f"--family: unknown family {unknown[0]!r}; known: {', '.join(FAMILIES)}")
        return self

    @property
    def acts_in_code(self) -> bool:
        """See `FhirSettings`."""
        return self.protocol == "code" or bool(self.strategy and self.strategy.code)

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
            one.model_copy(update={"temperature": None}) if one.name == NO_TEMPERATURE else one
            for one in super().judges(run)
        ]

    def panel(self, rubric: Rubric[Any], run: RunSettings) -> Panel[Any]:
        """See `PanelSettings.panel`. The rule set reads the replies, and `a2a` has its own prompt."""
        named = self
        if self.rule_set == "a2a" and self.judge_prompt == BUNDLED:
            named = self.model_copy(update={"judge_prompt": A2A})
        return replace(PanelSettings.panel(named, rubric, run), rule=self.rule_set)

    def decides(self) -> dict[str, Setting]:
        """See `RunSettings.decides`."""
        decides = {**super().decides(), "found": self.found_in_effect}
        if self.strategy is None:
            decides["input-cap"] = None
        if self.chat is not None and self.chat.temperature is None:
            decides["temperature"] = -1
        if not self.code_returns:
            decides["code-returns"] = None
        return decides


class FhirAgentBenchGrading(GradeOptions):
    """The options of `grade`, `report` and `compare`: questions, patients and rule set."""

    dataset: Annotated[str | None, Option(GRADING, kind="path")] = None
    """The questions: synthetic, published, a question file, or a folder made by medagent data new."""
    ehr: Annotated[Path | None, Option(GRADING, kind="path")] = None
    """The patients, for the baseline fetch-all and for the resources on pages."""
    rules: Annotated[RuleName | None, Option(GRADING, kind="value")] = None
    """The rule set: published, paper or a2a."""
