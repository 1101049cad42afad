"""The server: `medagent-openenv`. Each WebSocket is a session with a private copy of the record."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

import typer
import uvicorn
from openenv.core.env_server import CallToolAction, CallToolObservation, ConcurrencyConfig, create_app

from medagent import UserError
from medagent.rl import Environment
from medagent_openenv.environment import FirstObservation, MedAgentBenchEnvironment

SESSIONS, IDLE_S = 256, 600.0


def app_of(
    split: Literal["train", "dev", "ood"], seed: str, reward: Literal["official", "checks"], injected: str = ""
) -> Any:
    """The ASGI application. Makes the first set of tasks at once, so that no session waits for it. Raises UserError."""
    Environment(split, seed, injected=injected).reset(task=0)
    return create_app(
        partial(MedAgentBenchEnvironment, split, seed, reward, injected),
        CallToolAction,
        CallToolObservation,
        env_name="medagentbench",
        concurrency_config=ConcurrencyConfig(max_concurrent_envs=SESSIONS, session_timeout=IDLE_S),
        reset_observation_cls=FirstObservation,
    )


def __getattr__(name: str) -> Any:
    """`app`, which openenv.yaml names for uvicorn. It is made when it is first used."""
    if name == "app":
        return app_of("train", "0", "official")
    raise AttributeError(name)


def serve(
    split: Annotated[Literal["train", "dev", "ood"], typer.Option(help="Which split of the tasks.")] = "train",
    seed: Annotated[str, typer.Option(help="The seed of the tasks.")] = "0",
    reward: Annotated[
        Literal["official", "checks"], typer.Option(help="`official`: 1.0 or 0.0; `checks`: partial credit too.")
    ] = "official",
    injected: Annotated[
        str, typer.Option(help="The share of the tasks with an instruction for agents in the chart: 20%.")
    ] = "",
    host: Annotated[str, typer.Option(help="The address; all who can reach it have access.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port.")] = 8000,
) -> None:
    """Serve MedAgentBench's training tasks to OpenEnv clients.

    medagent-openenv --split train --seed 1 --reward checks
    """
    try:
        app = app_of(split, seed, reward, injected)
    except UserError as error:
        raise SystemExit(f"medagent-openenv: {error}") from None
    uvicorn.run(app, host=host, port=port, log_level="warning")


def main() -> None:
    """Run the command."""
    typer.run(serve)
