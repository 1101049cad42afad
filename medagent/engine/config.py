"""What every run is asked, whatever the benchmark: its label, where it lands, how much it may take."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, field_validator

from medagent.engine.engine import Limits
from medagent.engine.folder import Setting
from medagent.errors import UserError
from medagent.models.settings import ModelSettings
from medagent.wire import without_password

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

    def run_places(self, model: ModelSettings | None) -> dict[str, Setting]:
        """The shared options that may change between two tries but belong in a command to copy."""
        return {
            "base-url": [without_password(url) for url in model.base_urls] if model else None,
            "results-dir": None if self.results_dir == Path("results") else str(self.results_dir),
        }


def model_settings(model: ModelSettings | None) -> dict[str, Setting]:
    """What of a model's settings decides its replies, keyed by option name; all None for an agent without a model."""
    if model is None:
        return dict.fromkeys(("model", "api", "temperature", "max-tokens", "extra"))
    return {
        "model": model.name,
        "api": model.api,
        "temperature": -1 if model.temperature is None else model.temperature,
        "max-tokens": model.max_tokens,
        "extra": [f"{name}={_as_text(value)}" for name, value in sorted(model.extra.items())] or None,
    }


def _as_text(value: object) -> str:
    """A field's value as `--extra` takes it: a text that is no JSON as it is, all else as JSON."""
    if isinstance(value, str):
        try:
            json.loads(value)
        except ValueError:
            return value
    return json.dumps(value, ensure_ascii=False)


def file_digest(path: Path) -> str:
    """SHA-256 of a file. Raises UserError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
