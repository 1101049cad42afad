"""What a person asks for: a run of questions, and how much effort it may take."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from medagent.errors import UserError
from medagent.models.settings import ModelSettings
from medagent.run import config as run
from medagent.run.config import Landing, model_settings
from medagent.run.folder import Setting
from medagent.wire import without_password
from refsol.simpleqa.data import GoldQuestion, Variant
from refsol.simpleqa.prompts import ModelPrompt


class Effort(run.Effort):
    """What the run, judges included, may take; and what is shown."""

    quiet: bool = False
    """No progress."""
    as_json: bool = False
    """JSON instead of tables."""


class SimpleqaConfig(Landing):
    """A run: which questions, who answers, who judges."""

    data: Path
    """The questions."""
    variant: Variant = "husimpleqa"
    """Their format."""
    languages: list[str] = Field(default_factory=list)
    """The languages of the instruction; empty: all that the prompt has."""
    model: ModelSettings
    """Who answers."""
    judges: list[ModelSettings] = Field(min_length=1)
    """Who judges; several are a panel."""
    model_prompt: Path | None = None
    """A prompt file instead of the project's."""
    judge_prompt: Path | None = None
    """A judge prompt file instead of the project's."""
    limit: int | None = Field(default=None, ge=1)
    """Only the first so many questions."""

    @property
    def folder(self) -> Path:
        """Where this run lands."""
        return self.run_folder(f"simpleqa-{self.variant}", self.model.name)

    def languages_of(self, prompt: ModelPrompt) -> Sequence[str]:
        """The languages to ask in. Raises UserError for one that the prompt does not have."""
        if unknown := [language for language in self.languages if language not in prompt.templates]:
            raise UserError(f"--lang {unknown[0]}: the prompt has {', '.join(prompt.templates)}")
        return self.languages or list(prompt.templates)

    def settings(self, prompt: ModelPrompt, items: Sequence[GoldQuestion]) -> dict[str, Setting]:
        """What decides the answers, keyed by option name, or by a name in `digest` for what no option states."""
        return {
            "variant": self.variant,
            "round": self.round,
            **model_settings(self.model),
            "questions-digest": _digest(sorted([item.id, item.question] for item in items)),
            "model-prompt-digest": _digest({name: template.text for name, template in prompt.templates.items()}),
        }

    def places(self) -> dict[str, Setting]:
        """Options that are no settings, but part of a command that is to be copied."""
        return {
            "data": str(self.data),
            "lang": ",".join(self.languages) or None,
            "limit": self.limit,
            "judge": [judge.name for judge in self.judges],
            "judge-base-url": [without_password(url) for url in self.judges[0].base_urls],
            "model-prompt": str(self.model_prompt) if self.model_prompt else None,
            "judge-prompt": str(self.judge_prompt) if self.judge_prompt else None,
            **self.run_places(self.model),
        }


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
