"""Measures whether `$validate` calls the same resources valid as a real HAPI.

    python -m tools.hapi_diff.validate EXAMPLES.jsonl [--hapi URL] [--count 1000] [--seed 1]

The 228 official examples of EXAMPLES.jsonl (shared/hapi/examples.jsonl) and single changes of them (`mutations.py`)
are sent to `$validate`. With `--hapi`, a fresh, empty HAPI validates them first, and its results are written to
tests/data/hapi/validate.jsonl.xz, which the tests read. Without it, this server is compared with that file. A resource
is valid if no issue is an error.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections.abc import Iterable, Iterator
from pathlib import Path

from fhir_server import Request, Server
from tools.hapi_diff.client import JSON, Case, Client
from tools.hapi_diff.mutations import examples, mutated

VERDICTS = Path(__file__).resolve().parents[2] / "tests" / "data" / "hapi" / "validate.jsonl.xz"


def resources(path: Path, count: int, seed: int) -> Iterator[tuple[str, str]]:
    """The examples and their changes: a name, and the text."""
    texts = examples(path)
    for text in texts:
        resource = json.loads(text)
        yield f"{resource['resourceType']}/{resource['id']}", text
    yield from mutated(texts, count, seed)


def errors(body: str) -> list[str]:
    """The words of the errors in an OperationOutcome; empty where the resource is valid."""
    issues = json.loads(body)["issue"]
    return [issue.get("diagnostics", "") for issue in issues if issue["severity"] in ("error", "fatal")]


def ask_hapi(base: str, path: Path, count: int, seed: int) -> list[tuple[str, list[str]]]:
    """What HAPI finds wrong with each."""
    client, results = Client(base), []
    for name, text in resources(path, count, seed):
        kind = name.partition("/")[0]
        answer = client.send(Case("POST", f"{kind}/$validate", JSON, text))
        results.append((name, errors(answer.raw)))
    return results


def own_errors(server: Server, name: str, text: str) -> list[str]:
    """What this server finds wrong."""
    target = f"/fhir/{name.partition('/')[0]}/$validate"
    return errors(server.handle(Request("POST", target, list(JSON.items()), text.encode())).text)


def recorded() -> list[tuple[str, list[str]]]:
    """What HAPI found wrong with each, as it was recorded."""
    return [tuple(json.loads(line)) for line in lzma.decompress(VERDICTS.read_bytes()).decode("utf-8").splitlines()]


def compared(
    path: Path, rows: list[tuple[str, list[str]]], seed: int = 1
) -> Iterator[tuple[str, list[str], list[str]]]:
    """The name of each resource, what HAPI finds wrong with it, and what this server finds wrong."""
    with Server.open(None) as server:
        for (name, expected), (same, text) in zip(rows, resources(path, len(rows), seed), strict=False):
            if name != same:
                raise SystemExit(f"{VERDICTS.name} is of other resources: {name} for {same}")
            yield name, expected, own_errors(server, name, text)


def shares(results: Iterable[tuple[str, list[str], list[str]]]) -> dict[str, tuple[int, int]]:
    """By kind of resource and HAPI's verdict: how many get the same verdict here, and how many there are."""
    counted: dict[str, tuple[int, int]] = {}
    for name, expected, ours in results:
        kind = f"{'changed' if ': ' in name else 'example'}, {'invalid' if expected else 'valid'} to HAPI"
        equal, all_ = counted.get(kind, (0, 0))
        counted[kind] = equal + (bool(expected) == bool(ours)), all_ + 1
    return counted


def main() -> None:
    """Ask HAPI or read what it said, ask this server, print the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("examples", type=Path, metavar="EXAMPLES.jsonl", help="the official examples")
    parser.add_argument("--hapi", metavar="URL", help="use this HAPI, and save its results")
    parser.add_argument("--count", type=int, default=1000, help="how many changed examples (default 1000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="print every difference")
    options = parser.parse_args()
    if options.hapi:
        verdicts = ask_hapi(options.hapi, options.examples, options.count, options.seed)
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in verdicts)
        VERDICTS.write_bytes(lzma.compress(lines.encode(), preset=9 | lzma.PRESET_EXTREME))
    results = list(compared(options.examples, recorded(), options.seed))
    for name, expected, ours in results:
        if options.all and bool(expected) != bool(ours):
            print(f"{name}\n  HAPI {[text[:300] for text in expected[:3]]}\n  here {ours[:3]}")
    for kind, (equal, all_) in sorted(shares(results).items()):
        print(f"{kind}: {equal} of {all_} ({100 * equal / all_:.1f} %)")


if __name__ == "__main__":
    main()
