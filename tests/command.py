"""Runs `medagent …` in this process, as the command line does, and gives exit code, standard output and error."""

from __future__ import annotations

import contextlib
import io
import sys
from typing import NamedTuple
from unittest import mock


class Ran(NamedTuple):
    """What a command left."""

    code: int
    out: str
    err: str


def medagent(*args: object) -> Ran:
    """Run the command with these words."""
    from medagent.cli.app import main

    if "--workers" in args:
        from tests.starts import fork_workers

        fork_workers()
    out, err = io.StringIO(), io.StringIO()
    words = ["medagent", *map(str, args)]
    with mock.patch.object(sys, "argv", words), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    return Ran(code, out.getvalue(), err.getvalue())
