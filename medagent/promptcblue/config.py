"""What a run of PromptCBLUE is asked to do: the command line, validated."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from medagent.models.settings import ModelSettings
from medagent.run.folder import Place, Setting


class PromptcblueConfig(BaseModel):
    """One `medagent run promptcblue`. What decides the predictions is in `settings()`; the rest may change."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    data: Path
    """The test file: JSON lines with the prompts in `input`."""
    gold: Path | None = None
    """The right answers; with them a finished run is parsed and scored."""
    model: ModelSettings
    """Who answers."""
    round: str = Field(default="r1", pattern=r"^[\w.-]+$")
    """A label of the user's, part of the folder's name."""
    strip_thinking: bool = False
    """Whether a leading `<think>` block is cut from an answer."""
    concurrency: int = Field(default=16, ge=1)
    """Lines at once."""
    max_cost: float | None = Field(default=None, gt=0)
    """US dollars after which no new line is sent."""
    max_tokens_total: int | None = Field(default=None, gt=0)
    """Tokens after which no new line is sent."""
    results_dir: Path = Path("results")
    """Where runs land."""
    overwrite: bool = False
    """Start anew in a folder that holds a run."""

    @property
    def folder(self) -> Path:
        """Where this run lands: `results/promptcblue_{round}_{model}`."""
        return self.results_dir / f"promptcblue_{self.round}_{self.model.name.replace('/', '--')}"

    def settings(self, data_digest: str) -> dict[str, Setting]:
        """What decides the predictions, keyed by option name; the gold is no part of it."""
        return {
            "data-digest": data_digest,
            "round": self.round,
            "model": self.model.name,
            "api": self.model.api,
            "temperature": self.model.temperature,
            "max-tokens": self.model.max_tokens,
            "strip-thinking": self.strip_thinking,
        }

    def places(self) -> dict[str, Place]:
        """Options that say where things are, for a command that is to be copied."""
        return {
            "data": str(self.data),
            "gold": str(self.gold) if self.gold else None,
            "base-url": self.model.base_urls,
            "results-dir": None if self.results_dir == Path("results") else str(self.results_dir),
        }
