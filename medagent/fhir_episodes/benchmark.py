"""The base of benchmarks whose items are episodes on a FHIR server. Each supplies tasks, prompts, limits and a grader.

All other parts are shared: runs by text and by tools, `medagent.episode`, episodes over HTTP, played runs, and the
adapters for MCP, A2A, Harbor, Inspect and training.
"""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar, final
from urllib.parse import urlsplit

from medagent.agents.choice import NO_MODEL, AgentChoice, check_arguments
from medagent.agents.skills import read_skills, skill_files
from medagent.core.errors import UserError
from medagent.core.fhir_token import plain_http_warnings, scope_that_writes
from medagent.core.number_formats import counted
from medagent.core.options import Setting, checked, options
from medagent.core.writing import file_digest
from medagent.engine.benchmark import Benchmark, Say
from medagent.engine.blocks import Block, ConversationBlock, FactsBlock, RecordBlock, TranscriptMessage
from medagent.engine.data_sets import SetManifest
from medagent.engine.folder import Run
from medagent.engine.pairs import nouns_of, selected_pairs
from medagent.engine.patient_data import check_destinations, check_own_code
from medagent.engine.plan import Plan, Stage
from medagent.engine.report import GIVES_AWAY, ShownMessage
from medagent.engine.scores import Grader, Score
from medagent.engine.settings import mixed, selected
from medagent.fhir_data.embedded import (
    EhrFile,
    EmbeddedEhr,
    bundled_file,
    empty_file,
    hospital_clock,
    imported_file,
)
from medagent.fhir_data.record import ONLY_EMBEDDED
from medagent.fhir_episodes.code_session import CodeRules
from medagent.fhir_episodes.episode import (
    Acting,
    ChartCheck,
    EhrChoice,
    EpisodeJob,
    EpisodeRow,
    EpisodeUnit,
    Scripted,
    conversation,
    server_choice,
)
from medagent.fhir_episodes.fhir_base import API_BASE
from medagent.fhir_episodes.given_away import given_away
from medagent.fhir_episodes.own_loop import OWN_LOOP, check_settings
from medagent.fhir_episodes.packed import item_document, stored_item
from medagent.fhir_episodes.protocol import Protocol, load_protocol
from medagent.fhir_episodes.settings import FhirSettings
from medagent.fhir_episodes.task import FhirItem
from medagent.fhir_episodes.tools import Toolbox
from medagent.judging.panel import PanelSettings
from medagent.models.keys import base_urls
from medagent.models.scripted import check_script
from medagent.sandbox.choose import choose

_SAMPLING = ("temperature", "max-tokens", "extra")
"""Options that reach a model only through `self.context.model`."""

SettingsT = TypeVar("SettingsT", bound=FhirSettings)
_SOURCE, _ITEM = "source.json", "item.json"
"""Files of a packed item."""


@dataclass(frozen=True, slots=True)
class Training:
    """The tasks for training: their split, the seed that generates them, and their kind."""

    split: Literal["train", "dev", "ood"] = "train"
    seed: str = "0"
    like: str = ""
    injected: float = 0.0
    """The share of the tasks with an instruction in the chart."""


class FhirBenchmark(Benchmark[SettingsT, EpisodeRow]):
    """The base of benchmarks with a FHIR session."""

    row = EpisodeRow
    unit_noun = "episodes"
    kept_out: ClassVar[Sequence[str]] = ()
    """Folders of the package that an image for agents must not have, because they have answers."""
    ehr_file: ClassVar[Path | None] = None
    """The benchmark's own patients, as NDJSON; None: the bundled hospital."""
    brings_charts: ClassVar[bool] = False
    """Whether each item brings its chart (`FhirItem.chart`), so that its episodes have no other patients."""
    terminology: ClassVar[bool] = False
    """Whether agents can look up value sets and codes: by the tool `fhir_expand`, or as functions of the protocol."""
    agents: ClassVar[Sequence[str]] = ("text",)
    """The names of its agents; `text` is a model that acts without one."""
    tool_agents: ClassVar[Sequence[str]] = ()
    """Those that can act by tools without a model."""

    @abstractmethod
    def items(self, source: Any) -> Sequence[FhirItem]:
        """See `Benchmark.items`; `source` is a `Settings`."""

    def source(self, run: Run, overrides: Mapping[str, Any]) -> Any:
        """See `Benchmark.source`. It knows whether the run is over a hospital's own data."""
        source = super().source(run, overrides)
        return source.model_copy(update={"writes": run.settings.get("writes", "ack")})

    @abstractmethod
    def grader(self, source: Any, rules: str) -> Grader[EpisodeRow]:
        """The grader of episodes by one of the rule sets. Raises UserError."""

    def now(self, source: Any) -> datetime:
        """The clock of the embedded server: that of the data set, otherwise that of the bundled hospital."""
        manifest = self.manifest(source)
        return hospital_clock() if manifest is None else manifest.clock

    def patients(self, source: Any, say: Say) -> EhrFile:
        """The patients for the embedded server: the user's data, the benchmark's own, or the bundled hospital; none if
        the items bring their charts. Raises UserError.
        """
        file = source.ehr or self.ehr_file
        if file:
            return imported_file(file, say)
        return empty_file() if self.brings_charts else bundled_file(say)

    def protocol(self, source: Any, kind: str) -> Protocol:
        """The texts of a protocol: `text`, `tools` or `http`. Raises UserError."""
        return load_protocol(kind)

    @final
    def session_protocol(self, settings: SettingsT, kind: str) -> Protocol:
        """The texts of a protocol for episodes with these settings. Raises UserError."""
        words = self.protocol(settings, kind)
        words = words.with_terminology() if self.terminology else words
        further = settings.carried_out == "execute" and self.acting(settings) is None
        return words.with_writes() if further else words

    @final
    def toolbox(self, source: Any) -> Toolbox:
        """The tools of the protocol `tools`. Raises UserError."""
        words = self.protocol(source, "tools")
        return Toolbox.of(words.with_terminology() if self.terminology else words, API_BASE)

    def item(self, source: Any, task: Any) -> FhirItem:
        """The item of a task's id, or of a task. Raises UserError for an unknown id."""
        if isinstance(task, FhirItem):
            return task
        chosen_item: FhirItem | None = next((item for item in self.read_items(source) if item.id == task), None)
        if chosen_item is None:
            raise UserError(f"unknown task id {task!r} in {self.data(source).name} {self.data(source).version}")
        return chosen_item

    def resources(self, source: Any) -> Iterable[bytes]:
        """The patients as lines of NDJSON, for a container image. Raises UserError if they are not on this machine."""
        from medagent.fhir_data.store import stored_lines

        return (f"{line.rstrip()}\n".encode() for line in stored_lines(self.patients(source, lambda _: None).path))

    def pack(self, source: Any, item: Any) -> Mapping[str, bytes]:
        """The files with which `unpack` scores an episode of this item without the data set."""
        names = {option.name for option in options(type(source), "episode")}
        return {
            _SOURCE: source.model_dump_json(include=names, exclude_defaults=True).encode(),
            _ITEM: json.dumps(item_document(item), ensure_ascii=False).encode(),
        }

    def unpack(self, folder: Path) -> tuple[FhirItem, Grader[EpisodeRow]]:
        """The item and the grader in files of `pack`. Raises UserError."""
        try:
            source = checked(self.Settings, json.loads((folder / _SOURCE).read_bytes()))
            document = json.loads((folder / _ITEM).read_bytes())
            item = stored_item(document) or self.item(source, document["id"])
        except (OSError, ValueError, LookupError) as error:
            raise UserError(f"{folder}: is not a packed item: {error}") from None
        return item, self.grader(source, self.rule_sets[0])

    def training_item(self, stream: Training, number: int) -> tuple[Mapping[str, Any], FhirItem]:
        """An item of an endless sequence for training, by its number, and the options of its episode.

        The default repeats the items. Raises UserError for a split or a kind that the benchmark does not have.
        """
        if stream.split != "train" or stream.like or stream.injected:
            raise UserError(f"{self.name}: offers only one set of tasks; leave split, like and injected out")
        if number < 0:
            raise UserError(f"task {number}: tasks are counted from 0")
        items = {item.id: item for item in self.read_items(self.Settings())}
        order = mixed(list(items), lambda name: items[name].group)
        return {}, items[order[number % len(order)]]

    def manifest(self, source: Any) -> SetManifest | None:
        """The manifest of its data set, with the digest of its seed and the text that identifies it in training data;
        None if it has none.
        """
        return None

    def scripted(self, settings: SettingsT, items: Sequence[FhirItem]) -> Scripted | None:
        """One of the benchmark's own agents, if the settings name one. Raises UserError."""
        return None

    def changing(self, source: Any, items: Sequence[FhirItem]) -> Sequence[FhirItem]:
        """The items that are graded by how the chart has changed, as far as that is known before a run."""
        return ()

    @final
    def check_writes(self, settings: SettingsT, items: Sequence[FhirItem]) -> None:
        """Raises UserError if items can be graded only by how the chart has changed, and no write is carried out. A
        hospital's server is not read for it.
        """
        if settings.carried_out != "ack" or settings.fhir is not None:
            return
        groups = Counter(item.group for item in self.changing(settings, items))
        if groups:
            number = f"{groups.total()} of {counted(len(items), 'items')}"
            named = ", ".join(f"{count} {name}" for name, count in groups.items())
            raise UserError(
                f"{number} are graded by how the chart has changed ({named}), so agents must be able to change it: "
                "pass --writes execute"
            )

    def chart_check(self, settings: SettingsT) -> ChartCheck | None:
        """The check that the charts are still those of the set, if they are a hospital's own and may change."""
        return None

    def acting(self, settings: SettingsT) -> Acting | None:
        """The benchmark's own protocol, if the settings choose one."""
        return None

    @final
    def words(self, settings: SettingsT) -> Protocol:
        """The texts of a run: those of its protocol, with the user's prompts. Raises UserError."""
        kind = "code_tool" if settings.code_tool else settings.protocol
        worded = self.session_protocol(settings, kind).worded(prompt=settings.prompt_file, system=settings.system)
        return worded.with_skills(read_skills(settings.skill))

    def _given_away(self, settings: SettingsT) -> dict[str, Setting]:
        """What the user's own prompts and skills give away, for the notes of the run; nothing without them."""
        if settings.prompt_file is None and settings.system is None and not settings.skill:
            return {}
        kind = "code_tool" if settings.code_tool else settings.protocol
        published, worded = self.session_protocol(settings, kind), self.words(settings)
        texts = [worded.system, worded.prompt, *skill_files(worded.skills).values()]
        parts = given_away(f"{published.system}\n{published.prompt}", "\n".join(texts))
        return {GIVES_AWAY: [part.words for part in parts]} if parts else {}

    def left_out(self, settings: SettingsT, items: Sequence[FhirItem], ehr: EhrChoice, say: Say) -> Sequence[str]:
        """The ids of items that cannot be right over these patients and are left out. Raises UserError if the patients
        cannot be used.
        """
        return ()

    def _data_digests(self, settings: SettingsT) -> dict[str, Setting]:
        """The digests of the tasks and of the seed from which they were made."""
        manifest = self.manifest(settings)
        generated = manifest.generated if manifest else None
        seed = {"seed-digest": generated.seed_sha256} if generated else {}
        return {"tasks-digest": self.data(settings).digest, **seed}

    async def plan(self, settings: SettingsT, say: Say) -> Plan:
        items = self.read_items(settings)
        if settings.sequential and nouns_of(items) == "pairs":
            raise UserError(_PAIRS_ARE_LEARNED)
        self._check_items(settings, [item for item in items if item.change])
        check_script(settings.model or "", {item.id for item in items})
        who = self._with_skills(self._who(settings, items), settings)
        if isinstance(who, AgentChoice) and who.model is not None:
            await who.model.check(settings.concurrency)
        own_loop = who.own_loop if isinstance(who, AgentChoice) else None
        if own_loop is not None:
            check_settings(own_loop, settings)
        folder = settings.run_folder(self.folder_name(settings), who.label)
        check_patient_data(settings, who)
        code = await self._code(settings)
        ehr = await self._record(settings, say)
        left_out = self.left_out(settings, items, ehr, say)
        units = self._units(settings, items, left_out)
        chosen = {unit.task.id for unit in units if unit.chart}
        self._check_items(settings, [item for item in items if item.id in chosen])
        by_tools = {"protocol": "tools", "code_tool": False}
        protocol = self.words(settings.model_copy(update=by_tools) if own_loop else settings)
        acting = self.acting(settings)
        job = EpisodeJob(
            who,
            ehr,
            protocol,
            settings.session_rules,
            settings.concurrency,
            code=code,
            acting=acting,
            own_loop=own_loop is not None,
            chart_check=self.chart_check(settings),
        )
        data = self.data(settings).model_copy(update={"left_out": tuple(left_out)})
        return Plan(
            settings=settings,
            folder=folder,
            data=data,
            stages=(Stage(job, lambda: units),),
            items=items,
            decides={
                **settings.decides(),
                **(code.decides() if code else {}),
                **({"protocol": "tools", "loop": None, OWN_LOOP: "own"} if own_loop else {}),
                **self._data_digests(settings),
                "ehr-digest": ehr.digest,
                "prompts-digest": protocol.digest,
                "tools-digest": protocol.tools_digest if settings.protocol == "tools" else None,
                "prompt-digest": file_digest(settings.prompt_file) if settings.prompt_file else None,
                "system-digest": file_digest(settings.system) if settings.system else None,
                **self._given_away(settings),
                **({"skills": [skill.setting for skill in protocol.skills]} if protocol.skills else {}),
                **(who.digests() if isinstance(who, AgentChoice) else {}),
            },
            command=self.command,
            warnings=server_warnings(settings),
            owner_only=settings.private,
        )

    def _with_skills(self, who: AgentChoice | Scripted, settings: SettingsT) -> AgentChoice | Scripted:
        """The agent with the run's skills. Raises UserError if it cannot read any."""
        if not settings.skill:
            return who
        if self.acting(settings) is not None:
            raise UserError(f"--skill: the benchmark's own protocol {settings.protocol} gives its agents no skill")
        if isinstance(who, Scripted):
            raise UserError(f"--skill: the agent {who.label} reads no skill; name a model or an agent of your own")
        return replace(who, skills=read_skills(settings.skill))

    def _check_items(self, settings: SettingsT, items: Sequence[FhirItem]) -> None:
        """Raises UserError for items with a change or a chart that cannot be run, because it does not fit the patients
        or cannot be loaded.
        """
        if not items:
            return
        if settings.fhir is not None:
            raise UserError(ONLY_EMBEDDED)
        ehr = EmbeddedEhr.open(self.patients(settings, lambda _: None).path, API_BASE, self.now(settings))
        try:
            for item in items:
                ehr.check_item(item.id, item.change, item.chart)
        finally:
            ehr.close()

    def _units(self, settings: SettingsT, items: Sequence[FhirItem], left_out: Sequence[str]) -> Sequence[EpisodeUnit]:
        """The units of the selected items. Raises UserError if none is left."""
        chosen = self.chosen_without(settings, items, left_out)
        return [
            EpisodeUnit(item.task, trial, settings.seed(trial), item.change, item.chart)
            for trial in range(1, settings.trials + 1)
            for item in chosen
        ]

    @final
    def chosen_without(
        self, settings: SettingsT, items: Sequence[FhirItem], left_out: Sequence[str]
    ) -> Sequence[FhirItem]:
        """As `chosen`, without the items of `left_out`. Raises UserError if none is left."""
        missing = set(left_out)
        return self.chosen(settings, [item for item in items if item.id not in missing])

    @final
    def chosen(self, settings: SettingsT, items: Sequence[FhirItem]) -> Sequence[FhirItem]:
        """The items that a run's settings select, of twins all. Raises UserError."""
        twins = [item for item in items if item.pair]
        return selected_pairs(items, settings, self.selected) if twins else self.selected(settings, items)

    def selected(self, settings: SettingsT, items: Sequence[FhirItem]) -> Sequence[FhirItem]:
        """The items that a run's settings select, in an order that mixes the types. Raises UserError."""
        by_id = {item.id: item for item in items}
        return [by_id[name] for name in selected(list(by_id), settings, lambda name: by_id[name].group)]

    def folder_name(self, settings: SettingsT) -> str:
        """The beginning of the names of its run folders."""
        return self.name

    def notes(self, run: Run) -> Iterable[str]:
        """See `Benchmark.notes`: reports what the prompt gives away, that an agent's cost is unknown, and which options
        it did not use.
        """
        parts = run.settings.get(GIVES_AWAY)
        if isinstance(parts, list):
            yield f"The prompt gives away: {'; '.join(map(str, parts))}"
        if run.journals is None or run.settings.get(OWN_LOOP) != "own":
            return
        spent = run.journals.spent
        if not spent.calls:
            yield "Cost unknown: the agent owns its loop and reported no model call (env.spend)."
        default = {option.key: option.default for option in options(self.Settings)}
        unused = [f"--{name}" for name in _SAMPLING if run.settings.get(name) not in (None, default[name])]
        if unused and not spent.through_context:
            yield f"Warning: no effect of {', '.join(unused)}, as no call went through the agent's self.context.model."

    def messages(self, row: EpisodeRow) -> Sequence[ShownMessage]:
        """The conversation: the transcript, or programs and their output."""
        return list(conversation(row))

    def blocks(self, item: Any, row: EpisodeRow, score: Score | None) -> Sequence[Block]:
        """See `Benchmark.blocks`. The results of the POSTs come before the messages."""
        blocks = list[Block]()
        for block in super().blocks(item, row, score):
            if isinstance(block, ConversationBlock):
                if row.created:
                    writes = [(created.url, created.resource, created.not_stored) for created in row.created]
                    blocks.append(RecordBlock("What the POSTs stored, or would have stored", writes))
                blocks += [*changes_blocks(row), ConversationBlock(spoken(row))]
            else:
                blocks.append(block)
        return blocks

    def _who(self, settings: SettingsT, items: Sequence[FhirItem]) -> AgentChoice | Scripted:
        """The agent in effect. Raises UserError, with the choices, if the settings name none, or if they do not fit."""
        if settings.model is not None and settings.agent in self.agents[1:]:
            raise UserError(f"--agent {settings.agent} does not use a model: leave --model or --agent out")
        alone = settings.protocol in ("text", "code") or settings.agent in self.tool_agents
        lacks_model = None if settings.model or alone else UserError(f"--protocol {settings.protocol} needs --model")
        if lacks_model and settings.agent in (None, *self.agents):
            raise lacks_model
        if settings.model is None and settings.code_tool:
            raise UserError("--code-tool needs --model")
        scripted = self.scripted(settings, items)
        if scripted is not None:
            check_arguments("agent", None, settings.agent_arg)
            return scripted
        if settings.agent == "text":
            if settings.model is None:
                raise UserError(NO_MODEL + (self.agents[1] if len(self.agents) > 1 else "FILE.py:Name"))
            settings = settings.model_copy(update={"agent": None})
        choice = AgentChoice.of(settings, tuple(self.agents))
        if lacks_model and choice.own_loop is None:
            raise lacks_model
        return choice

    async def _code(self, settings: SettingsT) -> CodeRules | None:
        """The sandbox for programs, if agents act in code. Raises UserError if none works."""
        if not settings.acts_in_code:
            return None
        sandbox = await choose(
            settings.sandbox,
            settings.code_limits,
            packages=settings.code_packages,
            image=settings.sandbox_image,
            files=skill_files(read_skills(settings.skill)),
        )
        return CodeRules(sandbox, self.now(settings), settings.code_tool, settings.carried_out == "execute")

    @final
    def embedded(self, settings: SettingsT, say: Say) -> EhrChoice:
        """The embedded server's file of these settings. Raises UserError."""
        file = self.patients(settings, say)
        return EhrChoice(file=file.path, digest=file.digest, now=self.now(settings), pages=settings.pages)

    async def _record(self, settings: SettingsT, say: Say) -> EhrChoice:
        if settings.fhir is None:
            return self.embedded(settings, say)
        choice = server_choice(settings, self.now(settings))
        host = urlsplit(settings.fhir).hostname
        if elsewhere := next((allowed for allowed in settings.allow_writes if allowed.lower() != host), None):
            raise UserError(f"--allow-writes {elsewhere}: --fhir is on {host}")
        async with choice.open(choice.url) as ehr:
            await ehr.check()
        return choice


_PAIRS_ARE_LEARNED = (
    "--sequential: an agent that learns from one twin would know the answer to the other; make triples, in which the "
    "order of the two charts is random: medagent data twins --triples"
)


def check_patient_data(settings: FhirSettings, who: AgentChoice | Scripted) -> None:
    """Raises UserError if a run over a hospital's own data would send them to an address that is not allowed."""
    if not settings.private:
        return
    allowed = settings.send_patient_data
    agent, model = (who.agent, who.model) if isinstance(who, AgentChoice) else (None, None)
    for plugin in (agent, None if model is None else model.plugin):
        if plugin is not None:
            check_own_code(f"{plugin.name}, code of your own,", allowed)
    named = [
        option
        for option in options(type(settings))
        if option.option.kind == "address" and option.name not in _OF_THE_RECORD
    ]
    stated = [(option.written, getattr(settings, option.name) or []) for option in named]
    addresses = [(name, text) for name, value in stated for text in ([value] if isinstance(value, str) else value)]
    calls_model = model is not None and model.plugin is None and not model.settings.name.startswith("scripted:")
    models = [model.settings] if model is not None and calls_model else []
    if isinstance(settings, PanelSettings):
        models += settings.judges(settings)
    located = [(f"{model.name}, a model,", url) for model in models for url in base_urls(model, os.environ)]
    check_destinations([*addresses, *located], allowed)


_OF_THE_RECORD = ("fhir", "allow_writes", "send_patient_data")
"""Options with addresses that get no patient data."""


def server_warnings(settings: FhirSettings) -> Sequence[str]:
    """Warnings about the external server: plain HTTP, and in a private run a token that allows writes.

    Raises UserError if the token may not be sent.
    """
    if settings.fhir is None:
        return ()
    token = settings.fhir_headers.get("Authorization", "").removeprefix("Bearer ")
    scope = scope_that_writes(token) if settings.private else None
    warnings = list(plain_http_warnings(settings.fhir))
    if scope is not None:
        warnings.append(
            f"the token's scope allows writes ({scope}); medagent sends none, so a token that only reads is safer"
        )
    return warnings


def changes_blocks(row: EpisodeRow) -> Iterator[Block]:
    """The state difference, as a person reads it."""
    if row.changes:
        title = "Changed in the record"
        if isinstance(row.changes, str):
            yield FactsBlock(title, [("state difference", row.changes)])
        else:
            yield FactsBlock(title, [(change.name, change.words) for change in row.changes])


def spoken(row: EpisodeRow) -> list[TranscriptMessage]:
    """The conversation; if each message was one call, each has its call's tokens and seconds."""
    shown = list(conversation(row, requests=True))
    calls = iter(row.spent.each if len(row.spent.each) == sum(message.role == "agent" for message in shown) else ())
    messages = []
    for turn in shown:
        call = next(calls, None) if turn.role == "agent" else None
        tokens = None if call is None else (call.prompt, call.completion)
        seconds = None if call is None else call.latency
        messages.append(TranscriptMessage(turn.role, turn.text, turn.reasoning or "", tokens, seconds))
    return messages
