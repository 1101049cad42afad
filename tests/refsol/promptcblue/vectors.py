"""The recorded cases of the official parser and scorer, and helpers to make prediction lines."""

from __future__ import annotations

import json
from typing import Any

from tests.shared_data import DATA, read_xz


def text(name: str) -> str:
    return read_xz(DATA / "promptcblue" / f"{name}.xz")


def value(name: str) -> Any:
    return json.loads(text(name))


def line(task: str = "MedDG", **changes: Any) -> dict[str, Any]:
    return {
        "input": "问",
        "target": "答",
        "answer_choices": None,
        "task_type": "x",
        "task_dataset": task,
        "sample_id": "s-1",
        **changes,
    }


def jsonl(*lines: dict[str, Any]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in lines).encode()
