"""What a run of imapScore is asked to do: the command line, validated."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from medagent.errors import UserError
from medagent.imapscore.prompts import Prompts
from medagent.models.settings import ModelSettings
from medagent.run.folder import Place, Setting


class ImapscoreConfig(BaseModel):
    """One `medagent run imapscore`. What decides the recordings is in `settings()`; the rest may change."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    data: Path
    """The items, in the released form."""
    model: ModelSettings
    """Who extracts."""
    round: str = Field(default="r1", pattern=r"^[\w.-]+$")
    """A label of the user's, part of the folder's name."""
    min_votes: int = Field(default=2, ge=2, le=3)
    """How many of the three samples must agree."""
    graph: Path | None = None
    """A graph that is asked for relations before the model is."""
    g_eval: bool = False
    """Whether the model also rates each response."""
    concurrency: int = Field(default=16, ge=1)
    """Items at once, and calls at once."""
    max_cost: float | None = Field(default=None, gt=0)
    """US dollars after which no new item starts."""
    max_tokens_total: int | None = Field(default=None, gt=0)
    """Tokens after which no new item starts."""
    results_dir: Path = Path("results")
    """Where runs land."""
    overwrite: bool = False
    """Start anew in a folder that holds a run."""

    @property
    def folder(self) -> Path:
        """Where this run lands: `results/imapscore_{round}_{model}`."""
        return self.results_dir / f"imapscore_{self.round}_{self.model.name.replace('/', '--')}"

    @property
    def cache(self) -> Path:
        """The model's replies, shared by the runs of one results folder."""
        return self.results_dir / "imapscore-replies.sqlite"

    def settings(self, prompts: Prompts) -> dict[str, Setting]:
        """What decides the recordings, keyed by option name. Raises UserError for a file that cannot be read."""
        return {
            "data-digest": _digest(self.data),
            "round": self.round,
            "model": self.model.name,
            "api": self.model.api,
            "temperature": self.model.temperature,
            "max-tokens": self.model.max_tokens,
            "min-votes": self.min_votes,
            "graph-digest": _digest(self.graph) if self.graph else None,
            "g-eval": self.g_eval,
            "prompts-digest": prompts.digest,
        }

    def places(self) -> dict[str, Place]:
        """Options that say where things are, for a command that is to be copied."""
        return {
            "data": str(self.data),
            "graph": str(self.graph) if self.graph else None,
            "base-url": self.model.base_urls,
            "results-dir": None if self.results_dir == Path("results") else str(self.results_dir),
        }


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
