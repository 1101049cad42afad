"""Writes the bundled task set of psb-300 again: python -m tools.psb300_synthetic

Run it after a change of the bundled hospital, the generator or the wording. The seed is public and is in this file.
"""

from __future__ import annotations

from medagent.benchmarks.psb300.generator.write import GENERATOR
from medagent.benchmarks.psb300.tasks import BUNDLED, folder_of

SEED = "psb-300 synthetic"


def main() -> None:
    """Write the set into the package."""
    folder = folder_of(BUNDLED)
    folder.mkdir(parents=True, exist_ok=True)
    manifest = GENERATOR.make_bundled(folder, SEED)
    print(f"{folder}: {manifest.files}")


if __name__ == "__main__":
    main()
