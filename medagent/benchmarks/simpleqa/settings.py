"""What a run of SimpleQA is asked to do, beside what every run is asked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from medagent.engine.settings import Encoding, RunSettings
from medagent.errors import UserError
from medagent.models.settings import ModelSettings, key_table
from medagent.options import Names, Option, Setting
from refsol.simpleqa.data import GoldQuestion, Variant
from refsol.simpleqa.prompts import ModelPrompt

DATA = "The data"
JUDGES = "The judges"
BUNDLED = Path(__file__).parent / "data" / "hungarian.jsonl"


class SimpleqaSettings(RunSettings):
    """The options of `medagent run simpleqa`."""

    data: Annotated[Path, Option(DATA, "place")] = BUNDLED
    """The questions; by default the forty Hungarian ones that come along."""
    variant: Annotated[Variant, Option(DATA)] = "husimpleqa"
    """The format of --data."""
    encoding: Annotated[Encoding, Option(DATA, "place")] = "utf-8"
    """How --data is encoded."""
    lang: Annotated[Names, Option(DATA, "place", metavar="LANG,LANG")] = ()
    """Languages of the instruction, e.g. en,hu (default: all of the prompt)."""
    model_prompt: Annotated[Path | None, Option(DATA, "place")] = None
    """Your own prompt (TOML)."""
    judge: Annotated[list[str], Option(JUDGES, "place"), Field(min_length=1)]
    """A model that judges; repeated: a panel, by majority."""
    judge_base_url: Annotated[list[str], Option(JUDGES, "address"), Field(default_factory=list)]
    """The judges' endpoint (default: --base-url where the command has it, else OPENAI_BASE_URL, else OpenAI)."""
    judge_api_key_env: Annotated[
        list[str], Option(JUDGES, "place", metavar="NAME|HOST=NAME"), Field(default_factory=list)
    ]
    """The environment variable that holds the judges' key; as --api-key-env."""
    judge_prompt: Annotated[Path | None, Option(JUDGES, "place")] = None
    """Your own judge prompt (TOML)."""

    @model_validator(mode="after")
    def _fits(self) -> SimpleqaSettings:
        if self.data == BUNDLED and self.variant != "husimpleqa":
            raise UserError(f"--variant {self.variant}: needs the questions: --data FILE")
        judge_settings(self.judge, [], self.timeout)
        key_table(self.judge_api_key_env)
        return self

    @property
    def judges(self) -> list[ModelSettings]:
        """The panel."""
        named = self.judge_api_key_env or ([] if self.judge_base_url else self.api_key_env)
        return judge_settings(self.judge, self.judge_base_url or self.base_url, self.timeout, key_table(named))

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
    names: list[str], base_urls: list[str], timeout: float, keys: dict[str, str] | None = None
) -> list[ModelSettings]:
    """The settings of a panel's judges. Raises UserError for a judge that is named twice."""
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"--judge {twice[0]}: named twice; a panel has each judge once")
    return [ModelSettings(name=name, base_urls=base_urls, timeout_s=timeout, api_key_env=keys or {}) for name in names]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
