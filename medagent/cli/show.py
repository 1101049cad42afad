"""`medagent show`: a run's summary, or one episode's transcript with its verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    episode: Annotated[str | None, typer.Argument(metavar="[ID]", help="A task's id, or id#trial.")] = None,
) -> None:
    """Show a run's summary, or one episode: its transcript, its verdict and the reasons.

    Example: medagent show results/v2_r2_reference task5_7
    """
    from medagent.benchmarks.medagentbench.transcript import show_episode, show_run

    if episode is None:
        show_run(run)
    else:
        show_episode(run, episode)
