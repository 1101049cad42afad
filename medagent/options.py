"""The options of the Python API, by name and type. Made by `python tools/typed_options.py`; do not edit.

    options: MedAgentBenchOptions = {"model": "gpt-4o-mini", "limit": 10}
    report = medagent.run_sync("medagentbench", **options)

docs/running.md describes each option under its name on the command line (`max_tokens`: `--max-tokens`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Required, TypedDict

if TYPE_CHECKING:
    from datetime import datetime
    from functools import partial

    from medagent.agents.base import Agent
    from medagent.models.base import Model


class RunOptions(TypedDict, total=False):
    """The options of every run."""

    round: str
    agent: str | type[Agent] | Agent | partial[Any] | None
    model: str | type[Model] | Model | partial[Any] | None
    agent_arg: Mapping[str, Any]
    model_arg: Mapping[str, Any]
    base_url: Sequence[str]
    allow_host: Sequence[str]
    api: Literal["chat", "responses", "anthropic"]
    api_key_env: Sequence[str]
    temperature: float
    max_tokens: int | None
    timeout: float
    outage_time: float
    outage_attempts: int
    extra: Mapping[str, Any]
    strip_thinking: bool
    ids: str | Sequence[str]
    limit: int | None
    per_type: int | None
    trials: int
    concurrency: int
    sequential: bool
    learn_from: Literal["score", "facts"]
    max_cost: float | None
    max_tokens_total: int | None
    fail_after: float | None
    unit_time: float | None
    unit_tokens: int | None
    unit_cost: float | None
    retry: Sequence[str]
    cluster: str | None
    wait_for_workers: str | None
    workers: int | None
    results_dir: str | Path
    reuse: bool
    overwrite: bool


class FhirOptions(RunOptions, total=False):
    """The options of every run with FHIR sessions."""

    sandbox: Literal["auto", "bwrap", "monty", "docker"]
    sandbox_image: str | None
    code_seconds: float
    code_memory: int
    code_requests: int
    code_output: int
    code_tool: bool
    code_packages: str | Path | None
    ehr: str | Path | None
    fhir: str | None
    api_base: str
    loop: Literal["published", "lenient"] | None
    max_rounds: int
    writes: Literal["ack", "execute"]
    prompt: str | Path | None
    system: str | Path | None
    trial_seed: int | None
    cache: str | Path | None
    fhir_header: Sequence[str]
    ca_file: str | Path | None


class MedAgentBenchOptions(FhirOptions, total=False):
    """The options of a run of medagentbench."""

    protocol: Literal["text", "tools", "code"]
    version: str
    dataset: str
    tasks_file: str | Path | None
    types: str | Sequence[str]
    replay: str | Path | None


class FhirAgentBenchOptions(FhirOptions, total=False):
    """The options of a run of fhir-agentbench."""

    allow_unread: float
    judge: Sequence[str]
    judge_base_url: Sequence[str]
    judge_api_key_env: Sequence[str]
    judge_prompt: str
    protocol: Literal[
        "text",
        "tools",
        "code",
        "single_turn_request",
        "single_turn_resource",
        "single_turn_code_resource",
        "multi_turn_resource",
        "multi_turn_code_resource",
    ]
    dataset: str
    handling: Literal["strict", "lenient", "corrected"]
    found: Literal["last", "all"] | None
    rule_set: Literal["published", "paper", "a2a"]
    input_cap: str
    code_returns: bool
    split: str | Sequence[str]
    family: str | Sequence[str]
    template: Sequence[str]
    yes: bool


class ImapscoreOptions(RunOptions, total=False):
    """The options of a run of imapscore."""

    allow_empty: float
    answers: str | Path | None
    system: str | None
    data: str | Path
    encoding: Literal["utf-8", "gbk", "gb18030"]
    graph: str | Path | None
    embed_model: str | None
    embed_base_url: Sequence[str]
    prompt: str | Path | None
    few_shot: str | Path | None
    min_votes: int
    g_eval: bool


class PromptcblueOptions(RunOptions, total=False):
    """The options of a run of promptcblue."""

    allow_empty: float
    answers: str | Path | None
    system: str | None
    few_shot: str | None
    batch: bool
    cache: str | Path | None
    data: str | Path
    gold: str | Path | None
    edition: Literal["ccks", "public"] | None
    encoding: Literal["utf-8", "gbk", "gb18030"]
    prompt: str | None
    card: str | Path | None


class Psb300Options(FhirOptions, total=False):
    """The options of a run of psb-300."""

    protocol: Literal["text", "tools", "code"]
    dataset: str
    split: Literal["dev", "val", "id_test", "ood"] | None
    clock: str | datetime | None
    unfinished: Literal["empty", "wrong"]


class SimpleqaOptions(RunOptions, total=False):
    """The options of a run of simpleqa."""

    allow_unread: float
    allow_empty: float
    answers: str | Path | None
    system: str | None
    few_shot: str | None
    batch: bool
    cache: str | Path | None
    judge: Required[Sequence[str]]
    judge_base_url: Sequence[str]
    judge_api_key_env: Sequence[str]
    judge_prompt: str
    data: str | Path
    variant: Literal["husimpleqa", "simpleqa", "simpleqa-verified", "chinese-simpleqa"]
    recipe: Literal["own", "simple-evals", "opencompass", "autorater"]
    encoding: Literal["utf-8", "gbk", "gb18030"]
    prompt: str | Path | None
    lang: str | Sequence[str]


class GradeOptions(TypedDict, total=False):
    """The options of `medagent.grade` and `medagent.compare`."""

    tasks: str | Path | None
    dataset: str | None
    fhir: str | None
    ehr: str | Path | None
    key: str | Path | None
    base: str | None
    rules: str
    side_by_side: bool
    official: str | Path | None
    clock: str | datetime | None
    unfinished: Literal["empty", "wrong"] | None


class EpisodeOptions(TypedDict, total=False):
    """The options of an episode, for any benchmark."""

    ehr: str | Path | None
    fhir: str | None
    api_base: str
    protocol: Literal["text", "tools"]
    loop: Literal["published", "lenient"] | None
    max_rounds: int
    writes: Literal["ack", "execute"]
    strip_thinking: bool


class MedAgentBenchEpisodeOptions(EpisodeOptions, total=False):
    """The options of an episode of MedAgentBench, and of `medagent.tasks`."""

    version: str
    dataset: str
    tasks_file: str | Path | None


class HttpEpisodeOptions(TypedDict, total=False):
    """The options of `medagent.serve_episodes`."""

    ehr: str | Path | None
    api_base: str
    version: str
    dataset: str
    tasks_file: str | Path | None
