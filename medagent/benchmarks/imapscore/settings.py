"""What a run of imapScore is asked to do, beside what every run is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from medagent.engine.settings import Encoding, RunSettings, Temperature
from medagent.options import Option

DATA = "The data"


class ImapscoreSettings(RunSettings):
    """The options of `medagent run imapscore`."""

    data: Annotated[Path, Option(DATA, "place")]
    """The items: JSON lines in the released form."""
    encoding: Annotated[Encoding, Option(DATA, "place")] = "utf-8"
    """How --data is encoded."""
    graph: Annotated[Path | None, Option(DATA, "place")] = None
    """Relate values by this graph before the model is asked."""
    min_votes: Annotated[int, Option(DATA), Field(ge=2, le=3)] = 2
    """How many of the three samples must agree."""
    g_eval: Annotated[bool, Option(DATA)] = False
    """Also have the model rate each response (6 calls)."""
    temperature: Temperature = 0.9

    @property
    def cache(self) -> Path:
        """The model's replies, shared by the runs of one results folder."""
        return self.results_dir / "imapscore-replies.sqlite"
