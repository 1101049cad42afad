"""Builds the answer keys of the first bundled edition from its hospital (run it as a module)."""

from __future__ import annotations

import tempfile
from pathlib import Path

from fhir_server.synthetic import generate
from medagent.benchmarks.medagentbench.tasks.dataset import VERSIONS, dataset_folder, load_dataset
from refsol.medagentbench import NdjsonEhr, build_key, write_key


def write_bundled_keys(folder: Path) -> None:
    """Write `key_v1.json` and `key_v2.json` of the first bundled edition into a folder."""
    with tempfile.TemporaryDirectory() as aside:
        file = Path(aside) / "hospital.ndjson"
        file.write_text("".join(f"{line.rstrip()}\n" for line in generate()), encoding="utf-8")
        ehr = NdjsonEhr(file)
        for version in VERSIONS:
            tasks = [task.model_dump() for task in load_dataset("synthetic@1", version).tasks]
            write_key(folder / f"key_{version}.json", build_key(tasks, ehr))


if __name__ == "__main__":
    write_bundled_keys(dataset_folder("synthetic@1"))
