"""The options of a run of PromptCBLUE, in addition to the options of every run, and the file of --card:

backbone = "Qwen2.5-7B"
trained_share = 0.8          # trained parameters, per cent of all
data = "PromptCBLUE's training set only"
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from medagent.agents.single_turn import SingleTurnSettings, digest, text_or_file
from medagent.core.errors import UserError
from medagent.core.options import Option, RunOption, Setting, checked
from medagent.engine.settings import Encoding

DATA = "The data"
MINI = Path(__file__).parent / "mini"
EditionName = Literal["ccks", "public"]
"""The names in `refsol.promptcblue.public.EDITIONS`."""


class PromptcblueSettings(SingleTurnSettings):
    """The options of `medagent run promptcblue`."""

    data: Annotated[Path, Option(DATA, "place", kind="path")] = MINI / "test.jsonl"
    """The test file: JSON lines with the prompts in `input`. Default: two bundled lines per task."""
    gold: Annotated[Path | None, Option(DATA, "place", kind="path")] = None
    """The right answers in structured format; with them, the run is parsed and scored at the end."""
    edition: Annotated[EditionName | None, Option(DATA, kind="value")] = None
    """The rules of the 16 tasks of the shared task (ccks) or of the 18 (public). Default: detected from the tasks in
    --data, even if only some lines are selected.
    """
    encoding: Annotated[Encoding, Option(DATA, "place", kind="value")] = "utf-8"
    """The encoding of --data."""
    prompt: Annotated[str | None, RunOption(DATA, "place", metavar="TEXT|FILE", kind="path"), Field(min_length=1)] = (
        None
    )
    """The message to the model, with {input} in place of the line's prompt."""
    card: Annotated[Path | None, RunOption(DATA, "place", kind="path")] = None
    """Facts that the shared task asks of an entry (TOML: backbone, trained_share, data), stored in run.json."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if "{input}" not in self.template:
            raise UserError("--prompt: does not contain {input}; write {input} where the line's prompt belongs")
        return self

    @property
    def right_answers(self) -> Path | None:
        """The gold file: the user's, or the one for the bundled lines."""
        return MINI / "gold.json" if self.gold is None and self.data == MINI / "test.jsonl" else self.gold

    @property
    def template(self) -> str:
        """The message to the model, with `{input}` in it."""
        return "{input}" if self.prompt is None else text_or_file(self.prompt, "--prompt")

    def decides(self) -> dict[str, Setting]:
        return {**super().decides(), "prompt-digest": digest(self.template) if self.prompt is not None else None}


class Card(BaseModel):
    """The facts of an entry."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    backbone: str = Field(min_length=1)
    """The model that was trained."""
    trained_share: float = Field(ge=0, le=100)
    """Trained parameters, per cent of all."""
    data: str = Field(min_length=1)
    """The training data."""

    def settings(self) -> dict[str, Setting]:
        """The facts as values for `run.json`."""
        return {f"card:{name}": value for name, value in self.model_dump().items()}


def read_card(path: Path) -> Card:
    """Read the facts from a file. Raises UserError."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"{path}: cannot be read as TOML: {error}") from None
    return checked(Card, values, f"{path}: ")
