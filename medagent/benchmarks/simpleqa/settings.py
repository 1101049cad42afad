"""What a run of SimpleQA is asked to do, beside what every run is asked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from medagent.agents.single_turn import SingleTurnSettings
from medagent.benchmarks.simpleqa.judging import Judging
from medagent.core.errors import UserError
from medagent.core.options import Names, Option, Setting
from medagent.core.paths import data_dir
from medagent.engine.settings import Encoding
from medagent.models.settings import ModelSettings, Patience, key_table
from refsol.simpleqa.data import GoldQuestion, Variant
from refsol.simpleqa.prompts import JudgePrompt, ModelPrompt, judge_prompt

DATA = "The data"
JUDGES = "The judges"
BUNDLED = Path(__file__).parent / "data" / "hungarian.jsonl"


class PanelSettings(BaseModel):
    """Who judges, with what prompt: options of every command that has answers judged."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    judge: Annotated[list[str], Option(JUDGES, "place", kind="code"), Field(min_length=1)]
    """A model that judges; repeated: a panel, by majority."""
    judge_base_url: Annotated[list[str], Option(JUDGES, "place", kind="address"), Field(default_factory=list)]
    """The judges' endpoint (default: --base-url where the command has it, else OPENAI_BASE_URL, else OpenAI)."""
    judge_api_key_env: Annotated[
        list[str], Option(JUDGES, "place", metavar="NAME|HOST=NAME", kind="secret"), Field(default_factory=list)
    ]
    """The environment variable that holds the judges' key; as --api-key-env."""
    judge_prompt: Annotated[str, Option(JUDGES, "place", metavar="published|bundled|FILE", kind="path")] = "bundled"
    """How the judge is asked: in this project's words, in HuSimpleQA's published ones (medagent simpleqa prompt), or in
    yours (TOML).
    """

    @model_validator(mode="after")
    def _panel_fits(self) -> Self:
        if twice := [name for name in self.judge if self.judge.count(name) > 1]:
            raise UserError(f"--judge {twice[0]}: named twice; a panel has each judge once")
        key_table(self.judge_api_key_env)
        return self

    def judging(self, patience: Patience) -> Judging:
        """The panel at work. Raises UserError, InputError."""
        judges = judge_settings(self.judge, self.judge_base_url, patience, key_table(self.judge_api_key_env))
        return Judging(judges=judges, prompt=named_prompt(self.judge_prompt))


class SimpleqaSettings(PanelSettings, SingleTurnSettings):
    """The options of `medagent run simpleqa`."""

    data: Annotated[Path, Option(DATA, "place", kind="path")] = BUNDLED
    """The questions; by default the forty Hungarian ones that come along."""
    variant: Annotated[Variant, Option(DATA, kind="value")] = "husimpleqa"
    """The format of --data."""
    encoding: Annotated[Encoding, Option(DATA, "place", kind="value")] = "utf-8"
    """How --data is encoded."""
    lang: Annotated[Names, Option(DATA, "place", metavar="LANG,LANG", kind="value")] = ()
    """Languages of the instruction, e.g. en,hu (default: all of the prompt)."""
    prompt: Annotated[Path | None, Option(DATA, "place", kind="path")] = None
    """Your own prompt (TOML)."""

    @model_validator(mode="after")
    def _fits(self) -> SimpleqaSettings:
        if self.data == BUNDLED and self.variant != "husimpleqa":
            raise UserError(f"--variant {self.variant}: needs the questions: --data FILE")
        return self

    @property
    def judges(self) -> list[ModelSettings]:
        """The panel."""
        named = self.judge_api_key_env or ([] if self.judge_base_url else self.api_key_env)
        return judge_settings(self.judge, self.judge_base_url or self.base_url, self.patience, key_table(named))

    def languages_of(self, prompt: ModelPrompt) -> Sequence[str]:
        """The languages to ask in. Raises UserError for one that the prompt does not have."""
        if unknown := [language for language in self.lang if language not in prompt.templates]:
            raise UserError(f"--lang {unknown[0]}: the prompt has {', '.join(prompt.templates)}")
        return self.lang or list(prompt.templates)

    def decided(self, prompt: ModelPrompt, items: Sequence[GoldQuestion]) -> dict[str, Setting]:
        """What decides the answers; the judges are no part of it."""
        first = {"variant": self.variant, "round": self.round}
        return {
            **first,
            **{name: value for name, value in self.decides().items() if name not in first},
            "questions-digest": _digest(sorted([item.id, item.question] for item in items)),
            "model-prompt-digest": _digest({name: template.text for name, template in prompt.templates.items()}),
        }


def judge_settings(
    names: list[str], base_urls: list[str], patience: Patience, keys: dict[str, str] | None = None
) -> list[ModelSettings]:
    """The settings of a panel's judges."""
    given = asdict(patience)
    return [ModelSettings(name=name, base_urls=base_urls, api_key_env=keys or {}, **given) for name in names]


def published_place() -> Path:
    """Where HuSimpleQA's published judge prompt is kept once it was taken over."""
    return data_dir() / "simpleqa" / "published-judge.toml"


def named_prompt(name: str) -> JudgePrompt:
    """The judge prompt that `--judge-prompt` names. Raises UserError, InputError."""
    if name == "bundled":
        return judge_prompt()
    if name == "published" and not published_place().is_file():
        raise UserError(
            "--judge-prompt published: is not packed with medagent; take it over from a checkout of OpenCompass:"
            " medagent simpleqa prompt CHECKOUT"
        )
    return judge_prompt(published_place() if name == "published" else Path(name))


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
