"""Send generated requests to a real HAPI FHIR and to this server, and print where the answers differ.

    python -m tools.hapi_diff --hapi http://localhost:18080/fhir [--count 1000] [--seed 1] [--tier likely]

Both servers must be fresh and empty: the recorded data is loaded first, then the same requests go to both in the same
order. `hapi.sh PORT --hapi.fhir.reuse_cached_search_results_millis=-1` starts HAPI; this server is started here. What
no two runs share is blanked. Where answers to a GET differ, HAPI is asked again, and the request is not counted if HAPI
does not repeat itself. Differences are clustered by kind of request, statuses and the first words that differ; of each
cluster the shortest request is printed with both answers.
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

from tools.hapi_diff.client import JSON, Answer, Case, Client
from tools.hapi_diff.grammar import Grammar

DATA = Path(__file__).resolve().parents[2] / "tests" / "data" / "hapi" / "data.ndjson.xz"
TIERS = {"likely": 60, "rarer": 25, "hostile": 15}
_GIVEN_ID = re.compile(r'(?<=/)\d{3,}(?=[/"\\ ?]|$)|(?<="id": ")\d{3,}(?=")|(?<=<id value=")\d{3,}(?=")')


@dataclass(frozen=True, slots=True)
class Difference:
    """A request that was answered otherwise."""

    case: Case
    hapi: Answer
    own: Answer

    @property
    def cluster(self) -> tuple[str, ...]:
        """What differences of the same cause have in common."""
        first, second = _signature(self.hapi), _signature(self.own)
        if first == second:
            first, second = "order or content", ""
        return (self.case.tier, self.case.rule, str(self.hapi.status), str(self.own.status), first, second)


def _signature(answer: Answer) -> str:
    found = re.search(r'"diagnostics": "((?:HAPI-\d+: ?)*[^":]{0,40})', answer.body)
    return found[1] if found else re.sub(r"\s+", " ", answer.body[:40])


def load(client: Client) -> list[dict[str, object]]:
    """Puts the recorded data on a server, in its order."""
    lines = lzma.decompress(DATA.read_bytes()).decode("utf-8").splitlines()
    resources = [json.loads(line) for line in lines]
    for resource, line in zip(resources, lines, strict=True):
        answer = client.send(Case("PUT", f"{resource['resourceType']}/{resource['id']}", JSON, line))
        if answer.status not in (200, 201):
            sys.exit(f"{client.base} refused {resource['resourceType']}/{resource['id']}: {answer.raw[:300]}")
    return resources


class Side:
    """One of the servers, and what it created last."""

    def __init__(self, base: str) -> None:
        self.client = Client(base)
        self.last = "Patient/nothing-yet"

    def send(self, case: Case) -> Answer:
        """The answer, with the ids that the server gave blanked."""
        answer = self.client.send(replace(case, url=case.url.replace("{last}", self.last)))
        try:
            created = json.loads(answer.raw) if case.method == "POST" and answer.status == 201 else {}
        except ValueError:
            created = {}
        if "id" in created:
            self.last = f"{created['resourceType']}/{created['id']}"
        return _without_ids(answer)

    def next_page(self, answer: Answer) -> Answer | None:
        """The answer behind the next link, if there is one."""
        found = re.search(r'"relation": "next",\s+"url": "([^"]+)"', answer.raw)
        return _without_ids(self.client.follow(found[1])) if found else None


def _without_ids(answer: Answer) -> Answer:
    headers = {name: without_given_ids(value) for name, value in answer.headers.items()}
    return replace(answer, body=without_given_ids(answer.body), headers=headers)


def without_given_ids(text: str) -> str:
    """A text with `<n>` for the ids that a server gave."""
    return _GIVEN_ID.sub("<n>", text)


def compare(hapi: Side, own: Side, case: Case) -> tuple[str, Difference | None]:
    """`equal`, `different` or `unstable`, and the difference; pages that follow are compared too."""
    first, second = hapi.send(case), own.send(case)
    for _ in range(3):
        same = (first.status, first.body, first.headers) == (second.status, second.body, second.headers)
        if not same:
            if case.method == "GET" and any(hapi.send(case).body != first.body for _ in range(4)):
                return "unstable", None
            return "different", Difference(case, first, second)
        pages = hapi.next_page(first), own.next_page(second)
        if pages[0] is None or pages[1] is None:
            return "equal", None
        first, second = pages
    return "equal", None


class Running:
    """This server on a free port, over a new file, until the end of the block."""

    def __enter__(self) -> str:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self._folder = tempfile.TemporaryDirectory()
        command = [sys.executable, "-m", "fhir_server", "--data", f"{self._folder.name}/store.sqlite"]
        self._process = subprocess.Popen([*command, "--port", str(port)], stderr=subprocess.DEVNULL)
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                time.sleep(0.05)
        return f"http://localhost:{port}/fhir"

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()


def show(differences: list[Difference], limit: int) -> None:
    """The clusters, the largest first, each with its shortest request."""
    clusters: dict[tuple[str, ...], list[Difference]] = defaultdict(list)
    for one in differences:
        clusters[one.cluster].append(one)
    for found in sorted(clusters.values(), key=len, reverse=True)[:limit]:
        one = min(found, key=lambda each: len(each.case.url) + len(each.case.body or ""))
        print(f"\n{len(found)} × {one.case.tier} {one.case.rule}: {one.hapi.status} HAPI, {one.own.status} here")
        print(f"  {one.case.method} {one.case.url}  {(one.case.body or '')[:300]}")
        if one.hapi.headers != one.own.headers:
            names = one.hapi.headers.keys() | one.own.headers.keys()
            print(
                "  headers",
                {
                    n: (one.hapi.headers.get(n), one.own.headers.get(n))
                    for n in names
                    if one.hapi.headers.get(n) != one.own.headers.get(n)
                },
            )
        if one.hapi.entries != one.own.entries:
            print(f"  HAPI {one.hapi.entries[:10]}\n  here {one.own.entries[:10]}")
        else:
            pairs = zip(one.hapi.body, one.own.body, strict=False)
            start = next((at for at, (left, right) in enumerate(pairs) if left != right), 0)
            print(f"  HAPI {one.hapi.body[max(0, start - 60) : start + 200]!r}")
            print(f"  here {one.own.body[max(0, start - 60) : start + 200]!r}")


def main() -> None:
    """Load both servers, send the requests, print the clusters and the shares by tier."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hapi", required=True, metavar="URL", help="the base address of a fresh, empty HAPI")
    parser.add_argument("--count", type=int, default=1000, help="how many requests (default 1000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tier", choices=[*TIERS], help="only requests of this tier")
    parser.add_argument("--show", type=int, default=40, help="how many clusters to print (default 40)")
    parser.add_argument("--loaded", action="store_true", help="HAPI has the recorded data already")
    options = parser.parse_args()
    with Running() as base:
        hapi, own = Side(options.hapi), Side(base)
        resources = load(own.client)
        if not options.loaded:
            load(hapi.client)
        grammar, results, differences = Grammar(options.seed, resources), Counter[tuple[str, str]](), []
        tiers = [options.tier] if options.tier else grammar.random.choices([*TIERS], [*TIERS.values()], k=options.count)
        for number in range(options.count):
            case = grammar.case(tiers[number % len(tiers)])
            result, difference = compare(hapi, own, case)
            results[case.tier, result] += 1
            if difference:
                differences.append(difference)
    show(differences, options.show)
    print()
    for tier in TIERS:
        equal, other = results[tier, "equal"], results[tier, "different"]
        if equal + other:
            share, skipped = 100 * equal / (equal + other), results[tier, "unstable"]
            print(f"{tier}: {equal} of {equal + other} equal ({share:.1f} %); {skipped} not counted")


if __name__ == "__main__":
    main()
