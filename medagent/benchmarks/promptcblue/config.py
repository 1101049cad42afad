"""What a run of PromptCBLUE is asked to do: the command line, validated."""

from __future__ import annotations

from pathlib import Path

from medagent.engine.config import Effort, Landing, model_settings
from medagent.engine.folder import Setting
from medagent.models.settings import ModelSettings


class PromptcblueConfig(Landing, Effort):
    """One `medagent run promptcblue`. What decides the predictions is in `settings()`; the rest may change."""

    data: Path
    """The test file: JSON lines with the prompts in `input`."""
    gold: Path | None = None
    """The right answers; with them a finished run is parsed and scored."""
    model: ModelSettings
    """Who answers."""
    strip_thinking: bool = False
    """Whether a leading `<think>` block is cut from an answer."""

    @property
    def folder(self) -> Path:
        """Where this run lands: `results/promptcblue_{round}_{model}`."""
        return self.run_folder("promptcblue", self.model.name)

    def settings(self, data_digest: str) -> dict[str, Setting]:
        """What decides the predictions, keyed by option name; the gold is no part of it."""
        return {
            "data-digest": data_digest,
            "round": self.round,
            **model_settings(self.model),
            "strip-thinking": self.strip_thinking,
        }

    def places(self) -> dict[str, Setting]:
        """Options that say where things are, for a command that is to be copied."""
        return {
            "data": str(self.data),
            "gold": str(self.gold) if self.gold else None,
            **self.run_places(self.model),
        }
