"""What a run of PromptCBLUE is asked to do, beside what every run is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from medagent.engine.settings import RunSettings
from medagent.options import Option

DATA = "The data"


class PromptcblueSettings(RunSettings):
    """The options of `medagent run promptcblue`."""

    data: Annotated[Path, Option(DATA, "place")]
    """The test file: JSON lines with the prompts in `input`."""
    gold: Annotated[Path | None, Option(DATA, "place")] = None
    """Structured right answers: parse and score at the end."""
