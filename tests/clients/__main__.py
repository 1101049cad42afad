"""Clients that people use, against this server and, with `--base URL`, against a HAPI: `make clients [BASE=URL]`.

    python -m tests.clients [NAME …] [--base http://localhost:18080/fhir]

Each script makes its calls and prints a line for each: name, `ok` or `failed`, what was answered. What works on HAPI
and fails here is an error; what is merely answered otherwise is printed too, ids, times and addresses blanked, and the
media types of all answers. Without `--base`, what fails here is printed. `make clients` first installs the clients,
which needs Java, Maven and Node.
"""

from __future__ import annotations

import argparse
import random
import re
import string
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.clients.recorder import recorded

HERE = Path(__file__).parent
PYTHON = HERE.parents[1] / ".venv-clients/bin/python"
SCRIPTS = {
    "hapi": ["java", "-cp", f"{HERE}/java/target/classes:{HERE}/java/target/dependency/*", "Calls"],
    "fhirpy": [str(PYTHON), str(HERE / "fhirpy_calls.py")],
    "fhirclient": [str(PYTHON), str(HERE / "fhirclient_calls.py")],
    "fhir-kit-client": ["node", str(HERE / "javascript/kit.mjs")],
    "medplum": ["node", str(HERE / "javascript/medplum.mjs")],
}
BLANKED = [
    (r"https?://[^/\s]+/fhir", "BASE"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID"),
    (r"\b([A-Z][A-Za-z]+)/\d+", r"\1/ID"),
    (r"\d{4}-\d\d-\d\dT[0-9:.+Z-]+", "TIME"),
    (r"Took \d+ms", "Took MS"),
    # Which of two search parameters on one element is named differs from one answer of HAPI to the next.
    (r"\.where\(resolve\(\) is \w+\)", ""),
]
Calls = dict[str, tuple[str, str]]


@contextmanager
def own_server() -> Iterator[str]:
    """The address of this server over a new file."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "fhir_server", "--data", f"{folder}/store.sqlite", "--port", "0"]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            try:
                yield process.stderr.readline().split()[1]
            finally:
                process.terminate()


def calls(name: str, base: str) -> Calls:
    """What each call of a script came to."""
    run = "".join(random.choices(string.ascii_lowercase, k=10))
    with recorded(base) as (address, types):
        ran = subprocess.run([*SCRIPTS[name], address, run], capture_output=True, text=True, timeout=1200)
    lines = [line.split("\t") for line in ran.stdout.splitlines()]
    if ran.returncode or not lines or any(len(line) != 3 for line in lines):
        sys.exit(f"{name} could not be run to its end against {base}:\n{ran.stdout[-500:]}\n{ran.stderr[-2000:]}")
    came = {call: (result, blanked(said.replace(run, "RUN"))) for call, result, said in lines}
    return came | {"types of the answers": ("ok", " ".join(types))}


def blanked(said: str) -> str:
    for pattern, replacement in BLANKED:
        said = re.sub(pattern, replacement, said)
    return said[:400]


def compare(ours: Calls, theirs: Calls) -> list[str]:
    """Prints where two servers differ; the calls that work there and fail here."""
    worse = [call for call, (result, _) in theirs.items() if result == "ok" and ours[call][0] != "ok"]
    differing = [call for call in ours if ours[call] != theirs[call]]
    for call in differing:
        print(f"  {call}{' FAILS HERE' if call in worse else ''}")
        print(f"    here: {' '.join(ours[call])}\n    HAPI: {' '.join(theirs[call])}")
    print(f"  {len(ours)} calls, {len(ours) - len(differing)} equal, {len(worse)} that work on HAPI and fail here")
    return worse


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"a client: {', '.join(SCRIPTS)}; default: all")
    parser.add_argument("--base", metavar="URL", help="the address of a running HAPI to compare with")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in SCRIPTS]
    if unknown:
        parser.error(f"{', '.join(unknown)}: not one of {', '.join(SCRIPTS)}")
    failed = 0
    with own_server() as base:
        for name in options.names or SCRIPTS:
            print(name, flush=True)
            ours = calls(name, base)
            if options.base:
                failed += len(compare(ours, calls(name, options.base.rstrip("/"))))
                continue
            for call, (result, said) in ours.items():
                if result != "ok":
                    print(f"  {call}: {said}")
            print(f"  {len(ours)} calls, {sum(result == 'ok' for result, _ in ours.values())} ok")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
