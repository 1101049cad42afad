"""What a run of SimpleQA is asked to do, beside what every run is asked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import model_validator

from medagent.agents.single_turn import SingleTurnSettings
from medagent.core.errors import UserError
from medagent.core.options import Names, Option, Setting
from medagent.engine.settings import Encoding
from medagent.judging.panel import PanelSettings
from refsol.simpleqa.data import GoldQuestion, Variant
from refsol.simpleqa.prompts import ModelPrompt

DATA = "The data"
BUNDLED = Path(__file__).parent / "data" / "hungarian.jsonl"


class SimpleqaSettings(PanelSettings, SingleTurnSettings):
    """The options of `medagent run simpleqa`."""

    data: Annotated[Path, Option(DATA, "place")] = BUNDLED
    """The questions; by default the forty Hungarian ones that come along."""
    variant: Annotated[Variant, Option(DATA)] = "husimpleqa"
    """The format of --data."""
    encoding: Annotated[Encoding, Option(DATA, "place")] = "utf-8"
    """How --data is encoded."""
    lang: Annotated[Names, Option(DATA, "place", metavar="LANG,LANG")] = ()
    """Languages of the instruction, e.g. en,hu (default: all of the prompt)."""
    prompt: Annotated[Path | None, Option(DATA, "place", earlier="model-prompt")] = None
    """Your own prompt (TOML)."""

    @model_validator(mode="after")
    def _fits(self) -> SimpleqaSettings:
        if self.data == BUNDLED and self.variant != "husimpleqa":
            raise UserError(f"--variant {self.variant}: needs the questions: --data FILE")
        return self

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


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
