"""`medagent harbor`: the commands that the containers of `medagent export harbor` run. Users do not need them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from medagent.terminal.groups import group

app = group(
    "Commands for the containers of `medagent export harbor`.\n\nExample: medagent harbor build patients.ndjson.gz"
)
_Patients = Annotated[Path, typer.Argument(help="The patients' data, NDJSON.")]
_Log = Annotated[Path, typer.Argument(help="The log of the episode.")]
_Now = Annotated[
    datetime, typer.Option(formats=["%Y-%m-%dT%H:%M:%S%z"], help="The time at which the record's clock starts.")
]
_Change = Annotated[Path | None, typer.Option(help="The change of a twin's chart, and the item's own chart, JSON.")]
_AllWrites = Annotated[
    bool, typer.Option("--all-writes", help="Carry out updates, patches, deletions and Bundles, too.")
]


@app.command("build")
def build(patients: _Patients) -> None:
    """Import the patients into the cache folder while the image is built.

    Example: MEDAGENT_HOME=/var/lib/medagent medagent harbor build patients.ndjson.gz
    """
    from medagent.integrations.harbor.server import packed_patients
    from medagent.reports.tables import put

    put(packed_patients(patients).path)


@app.command("start")
def start(
    patients: _Patients,
    log: _Log,
    now: _Now,
    user: Annotated[str | None, typer.Option(help="Run it as this user.")] = None,
    change: _Change = None,
    all_writes: _AllWrites = False,
) -> None:
    """Start the server if it does not run, and wait until it replies.

    Example: medagent harbor start patients.ndjson.gz episode.jsonl --user fhir --now 2023-11-13T10:15:00+00:00
    """
    from medagent.integrations.harbor.server import start as start_server

    start_server(patients, now, log, user, change, all_writes=all_writes)


@app.command("serve")
def serve(patients: _Patients, log: _Log, now: _Now, change: _Change = None, all_writes: _AllWrites = False) -> None:
    """Serve the episode's record at http://localhost:8080/fhir, and take its answers at /finish.

    Example: medagent harbor serve patients.ndjson.gz episode.jsonl --now 2023-11-13T10:15:00+00:00
    """
    from medagent.integrations.harbor.server import serve as serve_episode

    serve_episode(patients, now, log, change, all_writes=all_writes)


@app.command("verify")
def verify(
    tests: Annotated[Path, typer.Argument(metavar="DIR", help="The task's tests folder.")],
    log: _Log,
    out: Annotated[Path, typer.Argument(help="The folder for reward.json.")],
    benchmark: Annotated[str, typer.Option(help="The benchmark: a name, or FILE.py:Name.")] = "medagentbench",
) -> None:
    """Grade an episode's log: write reward.json (1.0 or 0.0) and verdict.json (the reasons).

    Example: medagent harbor verify /tests /var/lib/medagent/episode.jsonl /logs/verifier
    """
    from medagent.benchmarks.base import find
    from medagent.integrations.harbor.verify import verify as grade
    from medagent.reports.tables import put

    chosen: Any = find(benchmark)
    put(grade(chosen, tests, log, out))
