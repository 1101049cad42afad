"""Measures whether `$validate` with uploaded profiles gives the same results as a real HAPI.

    python -m tools.hapi_diff.profiles [--hapi URL] [--seed 1] [--all]

Three profiles (`profiles.json`: their differentials, the value sets that they bind to, a resource of each, and edits)
are uploaded; HAPI's `$snapshot` makes their snapshots. Resources that name a profile are sent to `$validate`: each
with one or two of the edits, or with a single change of `mutations.py`, until HAPI has called 200 valid and 200
broken. With `--hapi`, a fresh HAPI validates them first, and its results are written to
tests/data/hapi/profiles.jsonl.xz, which the tests read. Without it, this server is compared with that file. A resource
is valid if no issue is an error.
"""

from __future__ import annotations

import argparse
import copy
import json
import lzma
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fhir_server import Request, Server
from tools.hapi_diff.client import JSON, Case, Client
from tools.hapi_diff.mutations import mutated

SOURCE = Path(__file__).with_name("profiles.json")
RECORDING = Path(__file__).resolve().parents[2] / "tests" / "data" / "hapi" / "profiles.jsonl.xz"
EACH = 200
"""The number of valid resources, and of broken ones."""
_UNUSED = ("definition", "comment", "requirements", "mapping", "alias", "short", "example", "condition", "base")
Json = Any
Words = list[tuple[str, str]]
"""Issues: the location and the diagnostics of each."""


def resources(seed: int) -> Iterator[Json]:
    """Resources that name a profile, without end."""
    chance = random.Random(seed)
    samples = json.loads(SOURCE.read_text("utf-8"))["samples"]
    yield from (sample["resource"] for sample in samples)
    yield from (edited(sample["resource"], [edit]) for sample in samples for edit in sample["edits"])
    while True:
        sample = chance.choice(samples)
        resource = edited(sample["resource"], chance.sample(sample["edits"], chance.choice((0, 1, 1, 2))))
        if chance.random() < 0.5:
            _, text = next(mutated([json.dumps(resource)], 1, chance.randrange(10**9)))
            resource = json.loads(text)
        yield resource


def edited(resource: Json, edits: list[list[Json]]) -> Json:
    """The resource with other values at some paths (`name.0.given`); a path without a value is dropped."""
    resource = copy.deepcopy(resource)
    for path, *values in edits:
        *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        owner = resource
        for step in steps:
            owner = owner[step] if isinstance(step, int) or step in owner else {}
        if values:
            owner[last] = copy.deepcopy(values[0])
        elif isinstance(owner, dict):
            owner.pop(last, None)
    return resource


def words(body: str) -> Words:
    """The errors of an OperationOutcome."""
    issues = json.loads(body)["issue"]
    return [
        (issue.get("location", [""])[0], issue.get("diagnostics", ""))
        for issue in issues
        if issue["severity"] in ("error", "fatal")
    ]


def ask_hapi(base: str, seed: int) -> Iterator[Json]:
    """What is uploaded, then the resources, each with what HAPI finds wrong."""
    client, source = Client(base), json.loads(SOURCE.read_text("utf-8"))
    uploads = source["terminology"]
    for profile in source["profiles"]:
        parameters = {"resourceType": "Parameters", "parameter": [{"name": "definition", "resource": profile}]}
        made = json.loads(client.send(Case.with_json("POST", "StructureDefinition/$snapshot", parameters)).raw)
        for element in made["snapshot"]["element"]:
            for name in _UNUSED:
                element.pop(name, None)
        del made["differential"]
        uploads.append(made)
    for upload in uploads:
        answer = client.send(Case.with_json("PUT", f"{upload['resourceType']}/{upload['id']}", upload))
        if answer.status not in (200, 201):
            raise SystemExit(f"{base} refused {upload['resourceType']}/{upload['id']}: {answer.raw[:300]}")
    yield {"uploads": uploads}
    seen, counts = set(), {True: 0, False: 0}
    for resource in resources(seed):
        text = json.dumps(resource, ensure_ascii=False)
        if text in seen:
            continue
        seen.add(text)
        answer = client.send(Case("POST", f"{resource['resourceType']}/$validate", JSON, text))
        problems = words(answer.raw)
        valid = not problems
        if counts[valid] < EACH:
            counts[valid] += 1
            yield {"resource": text, "errors": problems}
        if min(counts.values()) == EACH:
            return


def recorded() -> tuple[list[Json], list[tuple[str, Words]]]:
    """What was uploaded, and each resource with what HAPI found wrong."""
    first, *rows = [json.loads(line) for line in lzma.decompress(RECORDING.read_bytes()).decode("utf-8").splitlines()]
    return first["uploads"], [(row["resource"], [(place, text) for place, text in row["errors"]]) for row in rows]


def compared() -> Iterator[tuple[str, Words, Words]]:
    """Each resource, what HAPI finds wrong with it, and what this server finds wrong."""
    uploads, rows = recorded()
    with Server.open(None) as server:
        for upload in uploads:
            target, body = f"/fhir/{upload['resourceType']}/{upload['id']}", json.dumps(upload).encode()
            assert server.handle(Request("PUT", target, list(JSON.items()), body)).status == 201
        for text, expected in rows:
            target = f"/fhir/{json.loads(text)['resourceType']}/$validate"
            yield text, expected, words(server.handle(Request("POST", target, list(JSON.items()), text.encode())).text)


def main() -> None:
    """Ask HAPI or read what it said, ask this server, print the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hapi", metavar="URL", help="use this HAPI, and save its results")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="print every difference")
    options = parser.parse_args()
    if options.hapi:
        lines = [json.dumps(row, ensure_ascii=False) for row in ask_hapi(options.hapi, options.seed)]
        RECORDING.write_bytes(lzma.compress("\n".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME))
    counts: dict[tuple[bool, str], int] = {}
    for text, expected, ours in compared():
        equal = "the same words" if sorted(expected) == sorted(ours) else "the same verdict"
        equal = equal if bool(expected) == bool(ours) else "another verdict"
        counts[bool(expected), equal] = counts.get((bool(expected), equal), 0) + 1
        if options.all and equal != "the same words":
            print(f"{equal}: {text}\n  HAPI {expected}\n  here {ours}")
    for (broken, equal), count in sorted(counts.items()):
        print(f"{'broken' if broken else 'valid'} to HAPI, {equal}: {count}")


if __name__ == "__main__":
    main()
