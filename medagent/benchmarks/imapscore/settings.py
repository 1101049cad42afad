"""The options of a run of imapScore, in addition to the options of every run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

import refsol.imapscore
from medagent.agents.single_turn import AnswerSettings
from medagent.core.options import Option, RunOption
from medagent.engine.settings import WHO, Encoding, Temperature
from medagent.models.settings import ModelSettings

DATA = "The data"
BUNDLED = Path(refsol.imapscore.__file__).parent / "data"
"""A dozen items and their recorded imaps, which are bundled."""


class ImapscoreSettings(AnswerSettings):
    """The options of `medagent run imapscore`."""

    data: Annotated[Path, Option(DATA, "place", kind="path")] = BUNDLED / "items.jsonl"
    """The items: JSON lines in the released format. Default: the twelve bundled items."""
    encoding: Annotated[Encoding, Option(DATA, "place", kind="value")] = "utf-8"
    """The encoding of --data."""
    graph: Annotated[Path | None, Option(DATA, "place", kind="path")] = None
    """Use this graph to relate values before the model is asked."""
    answers: Annotated[Path | None, Option(WHO, "place", kind="path")] = None
    """Score these responses instead of the data's: a run's folder, JSON lines (id, answer), or another tool's file."""
    embed_model: Annotated[str | None, RunOption(DATA, kind="code", needs="graph")] = None
    """Let an encoder choose among similar names in the graph: an embedding model, or a class by its import path."""
    embed_base_url: Annotated[list[str], RunOption(DATA, "place", kind="address")] = Field(default_factory=list)
    """The endpoint of --embed-model (default: --base-url)."""
    prompt: Annotated[Path | None, RunOption(DATA, "place", kind="path")] = None
    """Your own prompt texts (TOML), which replace the texts of the same name."""
    few_shot: Annotated[Path | None, RunOption(WHO, "place", metavar="FILE", kind="path", needs="asks_model")] = None
    """Solved examples before every extraction: JSON lines (question, question_imap, answer, answer_imap)."""
    min_votes: Annotated[int, RunOption(DATA, kind="value"), Field(ge=2, le=3)] = 2
    """The number of samples, of three, that must agree."""
    g_eval: Annotated[bool, RunOption(DATA, kind="value")] = False
    """The model also rates each response (6 calls)."""
    temperature: Temperature = 0.9

    @property
    def encoder(self) -> ModelSettings | None:
        """The embedding model."""
        if self.embed_model is None:
            return None
        return self.endpoint(self.embed_model, self.embed_base_url or self.base_url)

    @property
    def cache(self) -> Path:
        """The stored model replies, shared by the runs of one results folder."""
        return self.results_dir / "imapscore-replies"
