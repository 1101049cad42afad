"""`python -m refsol.fhiragentbench --vectors FILE`: repeat recorded evaluations and compare. It needs only Python."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from refsol._vectors import compare
from refsol.fhiragentbench._replay import difference
from refsol.files import Fault, FaultsError


def main(arguments: Sequence[str] | None = None) -> int:
    """Repeat every line. Returns the exit code: 0 if all scores are equal, 1 if not or if the file cannot be read."""
    parser = argparse.ArgumentParser(
        prog="python -m refsol.fhiragentbench",
        description="Repeat recorded evaluations and compare calls, rows and scores.",
    )
    parser.add_argument(
        "--vectors",
        type=Path,
        required=True,
        help="JSON lines file; each line contains truth, answers, script and expected",
    )
    return compare(parser.parse_args(arguments).vectors, _difference)


def _difference(line: Any) -> str | None:
    try:
        return difference(line)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise FaultsError([Fault(f"is not a recorded evaluation: {error!r}")]) from None


if __name__ == "__main__":
    sys.exit(main())
