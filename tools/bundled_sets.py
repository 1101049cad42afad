"""Samples the bundled sets again, and writes the data card: python -m tools.bundled_sets

Run it after a change of the bundled hospital, of a generator or of a wording. It writes the hospital's seed and digest
into `fhir_server/synthetic/bundled.py`, and then the sets of MedAgentBench, psb-300 and FHIR-AgentBench.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from medagent.benchmarks.generated_sets import HOSPITAL, stored_seed
from medagent.benchmarks.medagentbench.generator.write import MabGenerator, set_number
from medagent.benchmarks.medagentbench.tasks.dataset import BUNDLED, dataset_folder
from medagent.core.writing import file_digest
from medagent.engine.data_sets import SetOptions

ROOT = Path(__file__).resolve().parent.parent
OTHERS = ("tools.bundled_tasks", "tools.data_card")


def main() -> None:
    """Write everything. The modules of `OTHERS` import the hospital, so each runs in a process of its own."""
    seed = stored_seed(dataset_folder(BUNDLED))
    with TemporaryDirectory() as aside:
        made = Path(aside) / "set"
        MabGenerator().make(made, SetOptions(seed=seed))
        digest = file_digest(made / HOSPITAL)
    page = ROOT / "fhir_server" / "synthetic" / "bundled.py"
    text = re.sub(r"(?m)^SEED = .*$", f"SEED = {set_number(seed, 'bundled', None)}", page.read_text(encoding="utf-8"))
    page.write_text(re.sub(r"(?m)^DIGEST = .*$", f'DIGEST = "{digest}"', text), encoding="utf-8", newline="\n")
    for module in OTHERS:
        subprocess.run([sys.executable, "-m", module], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
