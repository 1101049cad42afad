"""The options of every run, for any benchmark: agent and model, items, folder, limits.

A benchmark's settings are a subclass with more fields. The settings that decide the rows of a run (`decides`) are
stored in its folder and cannot change. The others may change when the run is continued.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from medagent.core.code_digest import has_json_form
from medagent.core.errors import UserError
from medagent.core.options import Names, Option, Setting, addresses, values
from medagent.core.scrub import safe_name
from medagent.core.wire import without_password
from medagent.engine.rows import RETRIED
from medagent.models.settings import Api, ModelSettings, Patience, key_table

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
            fields[name] = json.loads(raw)
        except ValueError:
            fields[name] = raw
    return fields


Temperature = Annotated[
    float,
    Option(WHO, kind="value"),
    Field(description="Sampling temperature; below 0: the model's default.", validate_default=True),
]


class RunSettings(BaseModel):
    """The options of every run."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    round: Annotated[str, Option(RUN, kind="value")] = "r1"
    """A label for the run; part of its folder's name."""
    agent: Annotated[str | None, Option(WHO, kind="code")] = None
    """Who answers: a class by its import path (my_agent.py:MyAgent), a name that a package registers, or an agent of
    the benchmark; by default the model of --model.
    """
    model: Annotated[str | None, Option(WHO, kind="code")] = None
    """The model's name at its endpoint, e.g. gpt-4o-mini; scripted:FILE; or a class by its import path."""
    agent_arg: Annotated[dict[str, Any], BeforeValidator(_fields), Option(WHO, metavar="NAME=VALUE", kind="value")] = {}
    """A keyword argument for the class in --agent, e.g. prompt=short or shots=3; repeatable."""
    model_arg: Annotated[dict[str, Any], BeforeValidator(_fields), Option(WHO, metavar="NAME=VALUE", kind="value")] = {}
    """A keyword argument for the class in --model; repeatable."""
    base_url: Annotated[list[str], Option(WHO, "place", metavar="URL", kind="address")] = []
    """An OpenAI-compatible endpoint (default: OPENAI_BASE_URL); repeat for replicas; an episode keeps one."""
    allow_host: Annotated[list[str], Option(WHO, "place", metavar="HOST", kind="address")] = []
    """Another host that an A2A agent may call (default: only the host of --base-url); repeatable."""
    api: Annotated[Api, Option(WHO, kind="value")] = "chat"
    """chat (chat completions), responses, or anthropic (Messages)."""
    api_key_env: Annotated[list[str], Option(WHO, "place", metavar="NAME|HOST=NAME", kind="secret")] = []
    """The environment variable with the endpoint's key (default for a single endpoint: OPENAI_API_KEY or
    ANTHROPIC_API_KEY); HOST=NAME for a replica on another host; repeatable.
    """
    temperature: Temperature = 0.0
    max_tokens: Annotated[int | None, Option(WHO, kind="value"), Field(ge=1)] = None
    """The longest reply in tokens (default: the endpoint's)."""
    timeout: Annotated[float, Option(LIMITS, "effort", kind="value"), Field(ge=1)] = 300.0
    """Seconds that one model call may take."""
    outage_time: Annotated[float, Option(LIMITS, "effort", metavar="SECONDS", kind="value"), Field(ge=0)] = 120.0
    """Stop after this many seconds without a successful call, and --outage-attempts failed attempts, at an endpoint."""
    outage_attempts: Annotated[int, Option(LIMITS, "effort", kind="value"), Field(ge=1)] = 20
    """Failed attempts in a row at an endpoint that stop the run, if --outage-time has passed as well."""
    extra: Annotated[dict[str, Any], BeforeValidator(_fields), Option(WHO, metavar="NAME=VALUE", kind="value")] = {}
    """Another field of the model's requests, e.g. reasoning_effort=low or top_p=0.9; repeatable."""
    strip_thinking: Annotated[bool, Option(WHO, kind="value")] = False
    """Remove a leading <think> block before a message is read."""

    ids: Annotated[Names, Option(WHICH, "place", metavar="ID,ID", kind="value")] = ()
    """Only these items, by their ids."""
    limit: Annotated[int | None, Option(WHICH, "place", kind="value"), Field(ge=1)] = None
    """At most N items, spread over the types; always the same ones."""
    per_type: Annotated[int | None, Option(WHICH, "place", kind="value"), Field(ge=1)] = None
    """At most N items of each type; always the same ones."""
    trials: Annotated[int, Option(WHICH, "place", kind="value"), Field(ge=1)] = 1
    """How often each item is run."""

    concurrency: Annotated[int, Option(LIMITS, "effort", kind="value"), Field(ge=1)] = 16
    """The number of items that run at once."""
    sequential: Annotated[bool, Option(RUN, kind="value")] = False
    """Run one item after the other. An agent with `learn` learns from each score before the next item."""
    learn_from: Annotated[Literal["score", "facts"], Option(RUN, kind="value")] = "score"
    """With --sequential, the agent sees: score (value, correct, kind), or facts (also reason, checks and facts, which
    quote the expected answer).
    """
    max_cost: Annotated[float | None, Option(LIMITS, "limit", kind="value"), Field(gt=0)] = None
    """Budget of the whole run in US dollars; start nothing that could exceed it (the run can be continued later)."""
    max_tokens_total: Annotated[int | None, Option(LIMITS, "limit", kind="value"), Field(ge=1)] = None
    """Budget of the whole run in tokens, like --max-cost."""
    fail_after: Annotated[float | None, Option(LIMITS, "limit", metavar="SHARE", kind="value"), Field(ge=0, lt=1)] = (
        None
    )
    """Stop if more than this share of the finished items failed, e.g. 0.2."""
    unit_time: Annotated[float | None, Option(LIMITS, metavar="SECONDS", kind="value"), Field(gt=0)] = None
    """Seconds that one item may take; then it ends as time_limit."""
    unit_tokens: Annotated[int | None, Option(LIMITS, kind="value"), Field(ge=1)] = None
    """Tokens that one item may take; then it ends as token_limit."""
    unit_cost: Annotated[float | None, Option(LIMITS, kind="value"), Field(gt=0)] = None
    """US dollars that one item may take; then it ends as cost_limit."""
    retry: Annotated[list[str], Option(LIMITS, "effort", metavar="STATUS", kind="value")] = []
    """Run items with this status again, e.g. agent_error; repeatable."""
    cluster: Annotated[str | None, Option(LIMITS, "place", kind="address")] = None
    """A Dask scheduler to run on, e.g. tcp://head:8786."""
    wait_for_workers: Annotated[str | None, Option(LIMITS, "effort", metavar="N[,SECONDS]", kind="value")] = None
    """With --cluster: start with N workers, or after SECONDS (default: 3600) with at least one; an adaptive cluster
    starts them.
    """
    workers: Annotated[int | None, Option(LIMITS, "place", kind="value"), Field(ge=1)] = None
    """Worker processes of a local cluster."""

    results_dir: Annotated[Path, Option(RUN, "place", kind="path")] = Path("results")
    """The folder of runs."""
    reuse: Annotated[bool, Option(RUN, "effort", kind="value")] = False
    """Continue a run although it is unknown whether the agent's code is unchanged; you state that it is."""
    overwrite: Annotated[bool, Option(RUN, "effort", kind="value")] = False
    """Delete the run in the folder and start again; files that the run did not write stay."""

    @model_validator(mode="before")
    @classmethod
    def _one_after_the_other(cls, fields: Any) -> Any:
        """A sequential run has a concurrency of 1, and no option that would run several items at once."""
        if not isinstance(fields, dict):
            return fields
        if not fields.get("sequential"):
            if fields.get("learn_from", "score") != "score":
                raise UserError("--learn-from needs --sequential")
            return fields
        if together := [name for name in ("workers", "cluster", "batch") if fields.get(name)]:
            raise UserError(f"--sequential runs one item after the other; omit --{together[0]}")
        return {**fields, "concurrency": 1}

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
        return ModelSettings(
            name=self.model,
            base_urls=self.base_url,
            allow_hosts=self.allow_host,
            api=self.api,
            api_key_env=key_table(self.api_key_env),
            temperature=None if self.temperature < 0 else self.temperature,
            max_tokens=self.max_tokens,
            extra=self.extra,
            **asdict(self.patience),
        )

    @property
    def patience(self) -> Patience:
        """The timeouts for the endpoints."""
        return Patience(self.timeout, self.outage_time, self.outage_attempts)

    def run_folder(self, benchmark: str, who: str) -> Path:
        """`results/{benchmark}_{round}_{who}`; a slash in a model's name becomes `--`, a colon becomes `-`."""
        return self.results_dir / safe_name(f"{benchmark}_{self.round}_{who}")

    def decides(self) -> dict[str, Setting]:
        """The settings that decide the rows of a run, by option. They cannot change when the run is continued."""
        decisive = values(self, "setting")
        if not self.sequential:
            decisive["learn-from"] = None
        decisive["extra"] = as_arguments(self.extra)
        decisive["agent-arg"], decisive["model-arg"] = as_arguments(self.agent_arg), as_arguments(self.model_arg)
        if self.model is None:
            decisive.update(dict.fromkeys(("api", "temperature", "max-tokens", "extra")))
        elif self.temperature < 0:
            decisive["temperature"] = -1
        return decisive

    def places(self) -> dict[str, Setting]:
        """The settings that may change when the run is continued, and are stored in `run.json`."""
        hidden = addresses(self)
        shown = {name: value for name, value in values(self, "place").items() if name not in hidden}
        return {**shown, "trials": None} if self.trials == 1 else shown

    def unwritten(self) -> dict[str, Setting]:
        """The settings that are in the command that continues the run, but not in `run.json`: limits, and addresses
        without passwords.
        """
        hidden = addresses(self)
        shown = {name: value for name, value in values(self, "place").items() if name in hidden}
        return {**{name: _without_passwords(value) for name, value in shown.items()}, **values(self, "limit")}


def _without_passwords(value: Setting) -> Setting:
    if isinstance(value, list):
        return [without_password(one) for one in value]
    return without_password(value) if isinstance(value, str) else value


def as_arguments(values: Mapping[str, Any]) -> list[str] | None:
    """Named values as `name=value`, like a repeated option; None if there are none."""
    return [f"{name}={_as_text(value)}" for name, value in sorted(values.items())] or None


def _as_text(value: object) -> str:
    """A value in the form of `--extra`: JSON, or a text that is not valid JSON. A value without a JSON form becomes the
    name of its type.
    """
    if not has_json_form(value):
        return f"({type(value).__name__})"
    if isinstance(value, str):
        try:
            json.loads(value)
        except ValueError:
            return value
    return json.dumps(value, ensure_ascii=False)
