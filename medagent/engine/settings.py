"""The options of every run, for any benchmark: agent and model, items, folder, limits.

A benchmark's settings are a subclass with more fields. The settings that decide the rows of a run (`decides`) are
stored in its folder and cannot change. The others may change when the run is continued.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from medagent.core.errors import UserError
from medagent.core.options import Names, Option, RunOption, Setting, addresses, options, refuse_idle, values
from medagent.core.scrub import safe_name
from medagent.core.wire import without_password
from medagent.engine.rows import RETRIED
from medagent.models.settings import Api, ModelSettings, key_table
from refsol.files import DuplicateKeyError, unique

_LABEL = re.compile(r"[\w.-]+")

Encoding = Literal["utf-8", "gbk", "gb18030"]
"""Encodings of data files."""
WHO = "Who answers"
WHICH = "Which items"
RUN = "The run"
LIMITS = "Limits and speed"


def _fields(value: object, info: ValidationInfo) -> object:
    """`name=value` texts as an object. A value that is valid JSON is parsed, any other is a text."""
    if not isinstance(value, list | tuple):
        return value
    fields: dict[str, object] = {}
    for text in value:
        name, equals, raw = str(text).partition("=")
        if not equals or not name:
            flag = str(info.field_name).replace("_", "-")
            raise UserError(f"--{flag} {text!r}: write it as name=value")
        try:
            fields[name] = json.loads(raw, object_pairs_hook=unique)
        except DuplicateKeyError as error:
            raise UserError(f"--{str(info.field_name).replace('_', '-')} {name}: {error}") from None
        except ValueError:
            fields[name] = raw
    return fields


Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
Arguments = Annotated[dict[str, Any], BeforeValidator(_fields)]
Temperature = Annotated[
    float,
    RunOption(WHO, kind="value", needs="model", refused=False),
    Field(description="Sampling temperature; below 0: the model's default.", validate_default=True),
]


class RunSettings(BaseModel):
    """The options of every run."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    agents: ClassVar[tuple[str, ...]] = ()
    """The names of the benchmark's agents."""

    round: Annotated[str, RunOption(RUN, kind="value", also="name")] = "r1"
    """A label for the run; part of its folder's name."""
    agent: Annotated[str | None, Option(WHO, kind="code", for_=("run", "source"))] = None
    """An agent of the benchmark{agents}, your own class by its import path (my_agent.py:MyAgent), or a name that a
    package registers; by default the model of --model.
    """
    model: Annotated[str | None, RunOption(WHO, kind="code")] = None
    """The model's name at its endpoint, e.g. gpt-4o-mini; scripted:FILE; or a class by its import path."""
    agent_arg: Annotated[Arguments, RunOption(WHO, metavar="NAME=VALUE", kind="value")] = {}
    """A keyword argument for the class in --agent, e.g. prompt=short or shots=3; repeatable."""
    model_arg: Annotated[Arguments, RunOption(WHO, metavar="NAME=VALUE", kind="value")] = {}
    """A keyword argument for the class in --model; repeatable."""
    base_url: Annotated[list[str], RunOption(WHO, "place", metavar="URL", kind="address")] = []
    """An OpenAI-compatible endpoint (default: OPENAI_BASE_URL); repeat for replicas; an episode keeps one."""
    allow_host: Annotated[list[str], RunOption(WHO, "place", metavar="HOST", kind="address")] = []
    """Another host that an A2A agent may call (default: only the host of --base-url); repeatable."""
    api: Annotated[Api, RunOption(WHO, kind="value", needs="model", refused=False)] = "chat"
    """chat (chat completions), responses, or anthropic (Messages)."""
    api_key_env: Annotated[list[str], RunOption(WHO, "place", metavar="NAME|HOST=NAME", kind="secret")] = []
    """The environment variable with the endpoint's key (default for a single endpoint: OPENAI_API_KEY or
    ANTHROPIC_API_KEY); HOST=NAME for a replica on another host; repeatable.
    """
    temperature: Temperature = 0.0
    max_tokens: Annotated[Count | None, RunOption(WHO, kind="value", needs="model", refused=False)] = None
    """The longest reply in tokens (default: the endpoint's)."""
    timeout: Annotated[float, RunOption(LIMITS, "effort", kind="value"), Field(ge=1)] = 300.0
    """Seconds that one model call may take."""
    outage_time: Annotated[float, RunOption(LIMITS, "effort", kind="value", hidden=True), Field(ge=0)] = 120.0
    outage_attempts: Annotated[Count, RunOption(LIMITS, "effort", kind="value", hidden=True)] = 20
    extra: Annotated[Arguments, RunOption(WHO, metavar="NAME=VALUE", kind="value", needs="model", refused=False)] = {}
    """Another field of the model's requests, e.g. reasoning_effort=low or top_p=0.9; repeatable."""
    strip_thinking: Annotated[bool, Option(WHO, kind="value")] = False
    """Remove a leading <think> block before a message is read."""

    ids: Annotated[Names, RunOption(WHICH, "place", metavar="ID,ID", kind="value")] = ()
    """Only these items, by their ids."""
    limit: Annotated[Count | None, RunOption(WHICH, "place", kind="value")] = None
    """At most N items, spread over the types; always the same ones."""
    per_type: Annotated[Count | None, RunOption(WHICH, "place", kind="value")] = None
    """At most N items of each type; always the same ones."""
    trials: Annotated[Count, RunOption(WHICH, "place", kind="value")] = 1
    """How often each item is run."""

    concurrency: Annotated[Count, RunOption(LIMITS, "effort", kind="value")] = 16
    """The number of items that run at once."""
    sequential: Annotated[
        Literal["score", "facts"] | None,
        BeforeValidator(lambda value: "score" if value is True else value or None),
        RunOption(RUN, kind="value", metavar="score|facts", without="workers cluster batch"),
    ] = None
    """Run one item after the other. Before the next item, an agent with `learn` sees the score (value, correct, kind),
    or the facts (also reason, checks and facts, which quote the expected answer).
    """
    max_cost: Annotated[Positive | None, RunOption(LIMITS, "limit", kind="value")] = None
    """Budget of the whole run in US dollars; start nothing that could exceed it (the run can be continued later)."""
    max_tokens_total: Annotated[Count | None, RunOption(LIMITS, "limit", kind="value")] = None
    """Budget of the whole run in tokens, like --max-cost."""
    fail_after: Annotated[
        float | None, RunOption(LIMITS, "limit", metavar="SHARE", kind="value"), Field(ge=0, lt=1)
    ] = None
    """Stop if more than this share of the finished items failed, e.g. 0.2."""
    unit_time: Annotated[Positive | None, RunOption(LIMITS, kind="value", part="per-item time")] = None
    """Seconds that one item may take; then it ends as time_limit."""
    unit_tokens: Annotated[Count | None, RunOption(LIMITS, kind="value", part="per-item tokens")] = None
    """Tokens that one item may take; then it ends as token_limit."""
    unit_cost: Annotated[Positive | None, RunOption(LIMITS, kind="value", part="per-item cost")] = None
    """US dollars that one item may take; then it ends as cost_limit."""
    retry: Annotated[list[str], RunOption(LIMITS, "effort", metavar="STATUS", kind="value")] = []
    """Run items with this status again, e.g. agent_error; repeatable."""
    cluster: Annotated[str | None, RunOption(LIMITS, "place", kind="address", without="workers")] = None
    """A Dask scheduler to run on, e.g. tcp://head:8786."""
    wait_for_workers: Annotated[
        str | None, RunOption(LIMITS, "effort", metavar="N[,SECONDS]", kind="value", needs="cluster")
    ] = None
    """With --cluster: start with N workers, or after SECONDS (default: 3600) with at least one; an adaptive cluster
    starts them.
    """
    workers: Annotated[Count | None, RunOption(LIMITS, "place", kind="value")] = None
    """Worker processes of a local cluster."""

    results_dir: Annotated[Path, RunOption(RUN, "place", kind="path")] = Path("results")
    """The folder of runs."""
    reuse: Annotated[bool, RunOption(RUN, "effort", kind="value")] = False
    """Continue a run although it is unknown whether the agent's code is unchanged; you state that it is."""
    overwrite: Annotated[bool, RunOption(RUN, "effort", kind="value")] = False
    """Delete the run in the folder and start again; files that the run did not write stay."""

    @model_validator(mode="before")
    @classmethod
    def _one_after_the_other(cls, fields: Any) -> Any:
        """The concurrency of a sequential run is 1."""
        return {**fields, "concurrency": 1} if isinstance(fields, dict) and fields.get("sequential") else fields

    @model_validator(mode="after")
    def _has_no_idle_option(self) -> Self:
        refuse_idle(self)
        return self

    def __hash__(self) -> int:
        """Settings are keys of caches. Equal ones agree in these fields."""
        return hash((type(self), self.round, self.agent, self.model))

    @field_validator("round")
    @classmethod
    def _fits_a_folder_name(cls, value: str) -> str:
        if not _LABEL.fullmatch(value):
            raise ValueError("only letters, digits, '.', '_' and '-' are allowed")
        return value

    @field_validator("retry")
    @classmethod
    def _is_final(cls, value: list[str]) -> list[str]:
        if unknown := [status for status in value if status not in RETRIED]:
            raise ValueError(f"{unknown[0]}: cannot be retried; use one of {', '.join(RETRIED)}")
        return value

    @field_validator("wait_for_workers")
    @classmethod
    def _is_a_number_of_workers(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[1-9]\d*(,\d+(\.\d+)?)?", value):
            raise ValueError("write it as N or N,SECONDS")
        return value

    @property
    def chat(self) -> ModelSettings | None:
        """The settings of the model; None if no model is named."""
        if self.model is None:
            return None
        return self.endpoint(
            self.model,
            self.base_url,
            allow_hosts=self.allow_host,
            api=self.api,
            api_key_env=key_table(self.api_key_env),
            temperature=None if self.temperature < 0 else self.temperature,
            max_tokens=self.max_tokens,
            extra=self.extra,
        )

    def endpoint(self, model: str, base_urls: list[str], **more: Any) -> ModelSettings:
        """The settings of a model that waits as long as the run allows."""
        outage: dict[str, Any] = {"outage_time_s": self.outage_time, "outage_attempts": self.outage_attempts}
        start = self.concurrency if "concurrency" in self.model_fields_set else None
        return ModelSettings(name=model, base_urls=base_urls, timeout_s=self.timeout, start=start, **outage, **more)

    def run_folder(self, benchmark: str, who: str) -> Path:
        """`results/{benchmark}_{round}_{who}`; a slash in a model's name becomes `--`, a colon becomes `-`."""
        return self.results_dir / safe_name(f"{benchmark}_{self.round}_{who}")

    def decides(self) -> dict[str, Setting]:
        """The settings that decide the rows of a run, by option. They cannot change when the run is continued."""
        decisive = values(self, "setting")
        if (chat := self.chat) is not None and chat.temperature is None:
            decisive["temperature"] = -1
        return decisive

    def places(self) -> dict[str, Setting]:
        """The settings that may change when the run is continued, and are stored in `run.json`."""
        private = addresses(self)
        return {name: value for name, value in values(self, "place").items() if name not in private}

    def unwritten(self) -> dict[str, Setting]:
        """What the command that continues the run contains, but not `run.json`: limits, and addresses without
        passwords. None for the settings that the user did not set: the command leaves them out.
        """
        places = values(self, "place")
        unset = [field.key for field in options(type(self), "run") if field.name not in self.model_fields_set]
        return {
            **{key: None for key in unset if key not in places},
            **{name: _without_passwords(places[name]) for name in addresses(self)},
            **values(self, "limit"),
        }


def _without_passwords(value: Setting) -> Setting:
    if isinstance(value, list):
        return [without_password(address) for address in value]
    return without_password(value) if isinstance(value, str) else value


def mixed(
    keys: Sequence[str], group: Callable[[str], str] = lambda _: "", *, per_group: int | None = None
) -> list[str]:
    """The keys, taken from the groups in turn. Within a group, the order is pseudo-random; at most `per_group` each."""
    groups: dict[str, list[str]] = {}
    for key in keys:
        groups.setdefault(group(key), []).append(key)
    places = [
        (round_, number, key)
        for number, members in enumerate(groups.values())
        for round_, key in enumerate(sorted(members, key=_lot)[:per_group])
    ]
    return [key for _, _, key in sorted(places)]


def _lot(key: str) -> bytes:
    return hashlib.sha256(f"medagent/{key}".encode()).digest()


def selected(ids: Sequence[str], settings: RunSettings, group: Callable[[str], str] = lambda _: "") -> list[str]:
    """The ids that `--ids`, `--per-type` and `--limit` select, in an order that mixes the groups (types).

    Raises UserError for an unknown id.
    """
    known = set(ids)
    if unknown := [item_id for item_id in settings.ids if item_id not in known]:
        known_ids = ", ".join([*ids[:3], "…"] if len(ids) > 4 else ids)
        raise UserError(f"--ids {unknown[0]}: no such item; the {len(ids)} items are {known_ids}")
    named = set(settings.ids)
    chosen = [item_id for item_id in ids if not named or item_id in named]
    return mixed(chosen, group, per_group=settings.per_type)[: settings.limit]
