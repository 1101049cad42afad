"""Writes the bundled questions of FHIR-AgentBench again: python -m tools.fhiragentbench_synthetic

Run it after a change of the bundled hospital, the generator or the wording. The seed is public and is in this file.
"""

from __future__ import annotations

from medagent.benchmarks.fhiragentbench.generator.write import GENERATOR
from medagent.benchmarks.fhiragentbench.sets import bundled_folder

SEED = "fhir-agentbench synthetic"


def main() -> None:
    """Write the set into the package."""
    folder = bundled_folder()
    folder.mkdir(parents=True, exist_ok=True)
    manifest = GENERATOR.make_bundled(folder, SEED)
    print(f"{folder}: {manifest.files}")


if __name__ == "__main__":
    main()
