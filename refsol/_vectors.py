"""Files of recorded cases (`.jsonl`, `.jsonl.gz`), and their comparison with this package's results."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from refsol.errors import InputError
from refsol.files import InputFile, json_object

MAX_SHOWN = 10


def compare(path: Path, difference: Callable[[dict[str, Any]], str | None]) -> int:
    """Print up to ten differing cases, then `N of M equal`. Returns the exit code: 0 if all are equal, otherwise 1.

    `difference` describes how a case differs, or returns None. It raises FaultsError for a line in another format.
    """
    differing: list[str] = []
    total = 0

    def look(value: Any) -> str | None:
        return difference(json_object(value))

    try:
        with InputFile(path, expected="each line must be a recorded case") as file:
            for _, text in file.json_lines(look):
                total += 1
                if text is not None:
                    differing.append(text)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for text in differing[:MAX_SHOWN]:
        print(text)
    print(f"{total - len(differing)} of {total} equal")
    return 0 if total and not differing else 1
