"""Options that several commands share, so that each text exists once."""

from __future__ import annotations

from typing import Annotated

import typer

from medagent.terminal.groups import show_all

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Full = Annotated[bool, typer.Option("--full", help="Print all tables, with intervals, digests and versions.")]
Scorer = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="In logs of other tools with several scorers, metrics or rewards: which one."),
]
BenchmarkCode = Annotated[
    str | None,
    typer.Option(
        "--benchmark",
        metavar="NAME|FILE.py:Name",
        help="The benchmark of a results file, or the code for a run whose benchmark is not installed. A run's "
        "own files never decide which code is run.",
    ),
]
HelpAll = Annotated[
    bool, typer.Option("--help-all", is_eager=True, callback=show_all, help="Show all options, not only frequent ones.")
]
WithPatientData = Annotated[
    bool,
    typer.Option(
        "--with-patient-data",
        help="Include the texts of a run over a hospital's own data (--writes private); otherwise scores, kinds and "
        "counts only.",
    ),
]
SendPatientData = Annotated[
    list[str] | None,
    typer.Option(
        "--send-patient-data",
        metavar="HOST",
        help="A host beyond this machine that may get a hospital's data; repeatable.",
    ),
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 chooses a free one.")]
Host = Annotated[str, typer.Option(help="The address to listen on.")]
OwnUrl = Annotated[
    str | None, typer.Option("--url", "--card-url", help="The URL in its agent card (default: http://HOST:PORT).")
]
AskedToken = Annotated[
    str | None, typer.Option("--token", envvar="MEDAGENT_SERVE_TOKEN", help="Require this bearer token from clients.")
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Listen beyond this machine without a token.")]
