"""Deals the bundled sets again, and writes the data card: python -m tools.bundled_sets

Run it after a change of the bundled hospital, of a generator or of a wording. It writes the hospital's seed and digest
into `fhir_server/synthetic/bundled.py`, and then the sets of MedAgentBench, psb-300 and FHIR-AgentBench.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

from medagent.benchmarks.made_folders import HOSPITAL, MANIFEST, kept_seed
from medagent.benchmarks.medagentbench.generator.write import SetOptions, make, seed_number
from medagent.benchmarks.medagentbench.tasks.dataset import dataset_folder

ROOT = Path(__file__).resolve().parent.parent
OTHERS = ("tools.psb300_synthetic", "tools.fhiragentbench_synthetic", "tools.data_card")


def main() -> None:
    """Write everything. The modules of `OTHERS` import the hospital, so each runs in a process of its own."""
    folder = dataset_folder("synthetic")
    seed = kept_seed(folder)
    with TemporaryDirectory() as aside:
        made = Path(aside) / "set"
        manifest = make(made, SetOptions(seed=seed))
        for name in (MANIFEST, *(name for name in manifest.files if name != HOSPITAL)):
            copyfile(made / name, folder / name)
    number, digest = seed_number(seed, "bundled", None), manifest.files[HOSPITAL]
    page = ROOT / "fhir_server" / "synthetic" / "bundled.py"
    text = re.sub(r"(?m)^SEED = .*$", f"SEED = {number}", page.read_text(encoding="utf-8"))
    page.write_text(re.sub(r"(?m)^DIGEST = .*$", f'DIGEST = "{digest}"', text), encoding="utf-8", newline="\n")
    for module in OTHERS:
        subprocess.run([sys.executable, "-m", module], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
