"""`python -m refsol.psb300 --vectors FILE`: grade recorded items and compare the verdicts. It needs only Python."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from refsol._vectors import compare
from refsol.clinical.sources import Resources
from refsol.files import Fault, FaultsError
from refsol.psb300.grade import grade_item
from refsol.psb300.rules import RULE_SETS, RuleName, rule_name


def main(arguments: Sequence[str] | None = None) -> int:
    """Grade every line. Returns the exit code: 0 if all verdicts are equal, 1 if not or if the file cannot be read."""
    parser = argparse.ArgumentParser(
        prog="python -m refsol.psb300", description="Grade recorded items and compare the verdicts."
    )
    parser.add_argument(
        "--vectors",
        type=Path,
        required=True,
        help="JSON lines file; each line contains case, clock, ehr, task, history, result and verdict",
    )
    parser.add_argument("--rules", choices=tuple(RULE_SETS), default="official", help="rule set (default: official)")
    options = parser.parse_args(arguments)
    rules = rule_name(options.rules)
    return compare(options.vectors, lambda line: _difference(line, rules))


def _difference(line: Any, rules: RuleName) -> str | None:
    try:
        name, expected, clock = str(line["case"]), line["verdict"], datetime.fromisoformat(line["clock"])
        facts = Resources(line["ehr"])
        task, history, result = line["task"], line["history"], line["result"]
    except (KeyError, TypeError, ValueError) as error:
        raise FaultsError([Fault(f"is not a recorded case: {error!r}")]) from None
    verdict = grade_item(task, history, result, facts, clock=clock, rules=rules)
    if bool(verdict.correct) == expected:
        return None
    return f"{name}: graded {verdict.correct}, recorded {expected}: {verdict.reason}"


if __name__ == "__main__":
    sys.exit(main())
