"""What a run of SimpleQA is asked to do, beside what every run is asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import model_validator

from medagent.agents.single_turn import AnswerSource, SingleTurnSettings
from medagent.core.errors import UserError
from medagent.core.options import Names, Option
from medagent.engine.settings import Encoding
from medagent.judging.panel import PanelSettings
from refsol.simpleqa.data import Variant
from refsol.simpleqa.prompts import ModelPrompt

DATA = "The data"
BUNDLED = Path(__file__).parent / "data" / "hungarian.jsonl"


class QuestionSource(AnswerSource):
    """Which questions are meant."""

    data: Annotated[Path, Option(DATA, "place", kind="path")] = BUNDLED
    """The questions; by default the forty Hungarian ones that come along."""
    variant: Annotated[Variant, Option(DATA, kind="value")] = "husimpleqa"
    """The format of --data."""
    encoding: Annotated[Encoding, Option(DATA, "place", kind="value")] = "utf-8"
    """How --data is encoded."""
    prompt: Annotated[Path | None, Option(DATA, "place", kind="path")] = None
    """Your own prompt (TOML)."""


class SimpleqaSettings(QuestionSource, PanelSettings, SingleTurnSettings):
    """The options of `medagent run simpleqa`."""

    lang: Annotated[Names, Option(DATA, "place", metavar="LANG,LANG", kind="value")] = ()
    """Languages of the instruction, e.g. en,hu (default: all of the prompt)."""

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
