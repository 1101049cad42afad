"""What a run of imapScore is asked to do: the command line, validated."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from medagent.benchmarks.imapscore.prompts import Prompts
from medagent.engine.config import Effort, Landing, file_digest, model_settings
from medagent.engine.folder import Setting
from medagent.models.settings import ModelSettings


class ImapscoreConfig(Landing, Effort):
    """One `medagent run imapscore`. What decides the recordings is in `settings()`; the rest may change."""

    data: Path
    """The items, in the released form."""
    model: ModelSettings
    """Who extracts."""
    min_votes: int = Field(default=2, ge=2, le=3)
    """How many of the three samples must agree."""
    graph: Path | None = None
    """A graph that is asked for relations before the model is."""
    g_eval: bool = False
    """Whether the model also rates each response."""

    @property
    def folder(self) -> Path:
        """Where this run lands: `results/imapscore_{round}_{model}`."""
        return self.run_folder("imapscore", self.model.name)

    @property
    def cache(self) -> Path:
        """The model's replies, shared by the runs of one results folder."""
        return self.results_dir / "imapscore-replies.sqlite"

    def settings(self, prompts: Prompts) -> dict[str, Setting]:
        """What decides the recordings, keyed by option name. Raises UserError for a file that cannot be read."""
        return {
            "data-digest": file_digest(self.data),
            "round": self.round,
            **model_settings(self.model),
            "min-votes": self.min_votes,
            "graph-digest": file_digest(self.graph) if self.graph else None,
            "g-eval": self.g_eval,
            "prompts-digest": prompts.digest,
        }

    def places(self) -> dict[str, Setting]:
        """Options that say where things are, for a command that is to be copied."""
        return {
            "data": str(self.data),
            "graph": str(self.graph) if self.graph else None,
            **self.run_places(self.model),
        }
