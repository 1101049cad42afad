"""What every run is asked, whatever the benchmark: its label, where it lands, how much it may take."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, field_validator

from medagent.errors import UserError
from medagent.models.settings import ModelSettings
from medagent.run.engine import Limits
from medagent.run.folder import Place, Setting

_LABEL = re.compile(r"[\w.-]+")


class Effort(BaseModel):
    """How much a run may take, at once and in all. It may change between two tries."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    concurrency: int = Field(default=16, ge=1)
    """Units, and model calls, at once."""
    max_cost: float | None = Field(default=None, gt=0)
    """US dollars after which no new unit starts."""
    max_tokens_total: int | None = Field(default=None, gt=0)
    """Tokens after which no new unit starts."""

    @property
    def limits(self) -> Limits:
        """When to take no new units."""
        return Limits(self.max_cost, self.max_tokens_total)


class Landing(BaseModel):
    """Where a run lands."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    round: str = "r1"
    """A label of the user's, part of the folder's name."""
    results_dir: Path = Path("results")
    """The folder of all runs."""
    overwrite: bool = False
    """Start anew in a folder that holds a run."""

    @field_validator("round")
    @classmethod
    def _fits_a_folder_name(cls, value: str) -> str:
        if not _LABEL.fullmatch(value):
            raise ValueError("a label holds letters, digits, '.', '_' and '-' only")
        return value

    def run_folder(self, benchmark: str, who: str) -> Path:
        """`results/{benchmark}_{round}_{who}`, a slash in a model's name as `--`."""
        return self.results_dir / f"{benchmark}_{self.round}_{who.replace('/', '--')}"

    def run_places(self, model: ModelSettings | None) -> dict[str, Place]:
        """The shared options that may change between two tries but belong in a command to copy."""
        return {
            "base-url": model.base_urls if model else None,
            "results-dir": None if self.results_dir == Path("results") else str(self.results_dir),
        }


def model_settings(model: ModelSettings | None) -> dict[str, Setting]:
    """What of a model's settings decides its replies, keyed by option name; all None for an agent without a model."""
    extra = str(sorted(model.extra.items())) if model and model.extra else None
    return {
        "model": model.name if model else None,
        "api": model.api if model else None,
        "temperature": model.temperature if model else None,
        "max-tokens": model.max_tokens if model else None,
        "extra-digest": hashlib.sha256(extra.encode()).hexdigest() if extra else None,
    }


def file_digest(path: Path) -> str:
    """SHA-256 of a file. Raises UserError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
