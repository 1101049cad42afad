"""Writes the bundled sets of tasks again, over the bundled hospital: python -m tools.bundled_tasks

Run it after a change of a generator or of a wording. The seeds are public and are in this file, or in the set's folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from medagent.benchmarks.base import BUNDLED
from medagent.benchmarks.fhiragentbench.generator.write import QuestionGenerator
from medagent.benchmarks.fhiragentbench.sets import bundled_folder
from medagent.benchmarks.generated_sets import SEED, SetGenerator, SetRequest, stored_seed
from medagent.benchmarks.medagentbench.generator.write import MabGenerator
from medagent.benchmarks.medagentbench.tasks.dataset import dataset_folder
from medagent.benchmarks.psb300.generator.write import PsbGenerator
from medagent.benchmarks.psb300.tasks import folder_of
from medagent.engine.data_sets import SetOptions


def sets() -> Mapping[Path, tuple[SetGenerator, str]]:
    """The folders of the bundled sets, each with its generator and seed."""
    mab = dataset_folder(BUNDLED)
    return {
        mab: (MabGenerator(), stored_seed(mab)),
        folder_of(BUNDLED): (PsbGenerator(), "psb-300 synthetic"),
        bundled_folder(): (QuestionGenerator(), "fhir-agentbench synthetic"),
    }


def main() -> None:
    """Write the sets into the package."""
    for folder, (generator, seed) in sets().items():
        for file in folder.iterdir():
            if file.name != SEED:
                file.unlink()
        made = generator.write(folder, SetRequest(SetOptions(seed=seed), seed, bundled=BUNDLED))
        print(f"{folder}: {made.tasks} items")


if __name__ == "__main__":
    main()
