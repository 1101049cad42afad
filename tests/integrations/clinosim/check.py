"""`clinosim eval`, another simulator's judge of cohorts, scores the patients of `synthetic`.

It reads a folder of NDJSON, a file a type, and looks for tests by LOINC code. Ours have the benchmark's local names, as
its own server sends them, so the copy that is judged has LOINC codes in their place; nothing else is changed. Its two
axes for Japan do not apply. In a second copy, patients are missing.
"""

import json
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from fhir_server.synthetic.bundled import hospital

CARD = Path(__file__).resolve().parents[3] / "benchmarks" / "measured" / "hospital.md"
AXES = ("structural", "clinical", "locale", "us_core_compliance")
SHAPE = {f"us_core_patient_{name}" for name in ("birthsex_extension_valid", "race_extension_shape")}
SHAPE |= {"us_core_patient_ethnicity_extension_shape", "loinc_present_on_lab_observations"}
"""What fails on purpose: extensions in the shape that the benchmark's own server sends, and the codes of cultures."""
LOINC = {
    **{"NA": "2951-2", "K": "2823-3", "CO2": "1963-8", "CREA": "2160-0", "GLU": "2345-7", "TBIL": "1975-2"},
    **{"INR": "6301-6", "WBC": "6690-2", "HGB": "718-7", "LACT": "2524-7", "BNP": "30934-4", "A1C": "4548-4"},
}


def judged(cohort: str) -> tuple[list[Any], dict[str, Any]]:
    """The axes of a report, and its checks by name."""
    judge = [Path(sys.executable).with_name("clinosim"), "eval", "--cohort-dir", cohort, "--country", "us"]
    subprocess.run([*judge, "--only-axes", ",".join(AXES), "--json", "eval.json"], check=True)
    axes = json.loads(Path("eval.json").read_bytes())["axes"]
    return axes, {check["name"]: check for axis in axes for check in axis["checks"]}


folder = Path("cohort/us/fhir_r4")
folder.mkdir(parents=True)
with ExitStack() as stack:
    files: dict[str, IO[str]] = {}
    for line in hospital():
        resource = json.loads(line)
        kind = resource["resourceType"]
        if kind == "Observation":
            coding = resource["code"]["coding"][0]
            coding["code"] = LOINC.get(coding["code"], coding["code"])
        if kind not in files:
            files[kind] = stack.enter_context((folder / f"{kind}.ndjson").open("w", encoding="utf-8"))
        files[kind].write(json.dumps(resource) + "\n")
axes, checks = judged("cohort")
assert {name for name, check in checks.items() if check["outcome"] == "FAIL"} == SHAPE, checks
for name in ("lab_values_physiological_range", "reference_integrity"):
    assert checks[name]["outcome"] == "PASS", checks[name]
patients = Path(shutil.copytree("cohort", "broken"), "us/fhir_r4/Patient.ndjson")
patients.write_text("".join(patients.read_text(encoding="utf-8").splitlines(keepends=True)[:10]), encoding="utf-8")
assert judged("broken")[1]["reference_integrity"]["outcome"] == "FAIL", "missing patients pass"
scores = {axis["axis"]: axis["score"] for axis in axes}
card = CARD.read_text(encoding="utf-8")
for axis, score in scores.items():
    assert f"| {axis} | {score} |" in card, f"{CARD}: says otherwise than {axis} {score}"
print("scores of synthetic, of 100: " + ", ".join(f"{axis} {score}" for axis, score in scores.items()))
