"""The made-up items over the made-up EHR, unpacked once a session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from refsol.medagentbench import NdjsonEhr
from tests.shared_data import DATA, read_xz

VECTORS = DATA / "medagentbench"


@pytest.fixture(scope="session")
def vector_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vectors") / "ehr.ndjson"
    path.write_text(read_xz(VECTORS / "ehr.ndjson.xz"), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def vector_ehr(vector_file: Path) -> NdjsonEhr:
    return NdjsonEhr(vector_file)


@pytest.fixture(scope="session")
def vector_tasks() -> dict[str, dict[str, Any]]:
    return {task["id"]: task for task in json.loads(read_xz(VECTORS / "tasks.json.xz"))}


@pytest.fixture(scope="session")
def vector_cases() -> list[dict[str, Any]]:
    return [json.loads(line) for line in read_xz(VECTORS / "cases.jsonl.xz").splitlines()]
