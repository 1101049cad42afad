"""Send generated requests to a real HAPI FHIR and to this server, and print where the answers differ.

    python -m tools.hapi_diff HAPI.SH [--starts 3] [--count 1000] [--seed N] [--tier likely] [--keep FOLDER]
    python -m tools.hapi_diff --answers FILE …

HAPI is started `--starts` times. Each start is loaded with the recorded data and gets the same requests in the same
order, and then this server gets them. Values that differ between any two runs are blanked. Only rows on which all
starts of HAPI agree are counted. `--keep` saves the answers of each start; `--answers` compares with saved answers,
without a HAPI. Differences are clustered by kind of request, statuses and the first differing words; for each cluster,
the shortest request is printed with both answers. `--list` writes a line for each difference, and `--docs
docs/hapi-record.md` writes the tables of that page.
"""

from __future__ import annotations

import argparse
import re
import secrets
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from tools.hapi_diff import answers, report
from tools.hapi_diff.answers import Plan
from tools.hapi_diff.client import Answer, Case
from tools.hapi_diff.grammar import TIERS
from tools.hapi_diff.servers import hapi, own_server


@dataclass(frozen=True, slots=True)
class Difference:
    """A request that was answered otherwise: the first page that differs."""

    case: Case
    hapi: Answer
    ours: Answer

    @property
    def cluster(self) -> tuple[str, ...]:
        """What is the same in differences of one cause."""
        first, second = _signature(self.hapi), _signature(self.ours)
        if first == second:
            first, second = "order or content", ""
        return (self.case.tier, self.case.rule, str(self.hapi.status), str(self.ours.status), first, second)


def _signature(answer: Answer) -> str:
    match = re.search(r'"diagnostics": "((?:HAPI-\d+: ?)*[^":]{0,40})', answer.body)
    return match[1] if match else re.sub(r"\s+", " ", answer.body[:40])


def compare(case: Case, expected: list[Answer], actual: list[Answer]) -> Difference | None:
    """The first page that differs; a page that one of them lacks follows from what the page before it says."""
    pairs = zip(expected, actual, strict=False)
    return next(
        (Difference(case, theirs, ours) for theirs, ours in pairs if answers.key(theirs) != answers.key(ours)), None
    )


def clustered(differences: list[Difference]) -> list[list[Difference]]:
    """The differences by cause, the commonest first."""
    clusters: dict[tuple[str, ...], list[Difference]] = defaultdict(list)
    for difference in differences:
        clusters[difference.cluster].append(difference)
    return sorted(clusters.values(), key=len, reverse=True)


def show(clusters: list[list[Difference]]) -> None:
    """The clusters, each with its shortest request."""
    for cluster in clusters:
        shortest = min(cluster, key=lambda difference: len(difference.case.url) + len(difference.case.body or ""))
        print(
            f"\n{len(cluster)} × {shortest.case.tier} {shortest.case.rule}: "
            f"{shortest.hapi.status} HAPI, {shortest.ours.status} here"
        )
        print(f"  {shortest.case.method} {shortest.case.url}  {(shortest.case.body or '')[:300]}")
        if shortest.hapi.headers != shortest.ours.headers:
            for name in sorted(shortest.hapi.headers.keys() | shortest.ours.headers.keys()):
                if shortest.hapi.headers.get(name) != shortest.ours.headers.get(name):
                    print(f"  {name}: HAPI {shortest.hapi.headers.get(name)}, here {shortest.ours.headers.get(name)}")
        if shortest.hapi.entries != shortest.ours.entries:
            print(f"  HAPI {shortest.hapi.entries[:10]}\n  here {shortest.ours.entries[:10]}")
        else:
            pairs = zip(shortest.hapi.body, shortest.ours.body, strict=False)
            start = next((at for at, (left, right) in enumerate(pairs) if left != right), 0)
            print(f"  HAPI {shortest.hapi.body[max(0, start - 60) : start + 200]!r}")
            print(f"  here {shortest.ours.body[max(0, start - 60) : start + 200]!r}")


def _starts(options: argparse.Namespace) -> tuple[Plan, list[list[list[Answer]]]]:
    """What each start of HAPI answered: saved answers, or the answers of starts made now."""
    if not options.answers:
        seed = secrets.randbelow(10**6) if options.seed is None else options.seed
        print(f"seed {seed}", flush=True)
        plan = Plan(options.count, seed, options.tier)
        folder = options.keep or Path(tempfile.mkdtemp(prefix="hapi-diff-"))
        folder.mkdir(parents=True, exist_ok=True)
        options.answers = [folder / f"start{number}.jsonl.xz" for number in range(1, options.starts + 1)]
        for path in options.answers:
            with hapi(options.hapi) as base:
                answers.write(path, plan, answers.ask(base, plan))
            print(f"{path}: {plan.count} requests", flush=True)
    read = [answers.read(path) for path in options.answers]
    if len({plan for plan, _ in read}) != 1:
        raise SystemExit("these files contain answers to different requests; pass files of one run with --keep")
    return read[0][0], [rows for _, rows in read]


def main() -> None:
    """Ask HAPI or read what it answered, ask this server, print the clusters and the shares by tier."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "hapi", type=Path, nargs="?", metavar="HAPI.SH", help="a script that starts HAPI on the port in its argument"
    )
    parser.add_argument("--answers", type=Path, nargs="+", metavar="FILE", help="saved answers of starts of HAPI")
    parser.add_argument("--starts", type=int, default=3, help="how often HAPI is started (default 3)")
    parser.add_argument("--count", type=int, default=1000, help="how many requests (default 1000)")
    parser.add_argument("--seed", type=int, help="the seed of the requests (default: a new one)")
    parser.add_argument("--tier", choices=[*TIERS], help="only requests of this tier")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="save the answers of each start here")
    parser.add_argument("--show", type=int, default=40, help="how many clusters to print (default 40)")
    parser.add_argument(
        "--docs", type=Path, metavar="PAGE", help="write the result into this page, between its markers"
    )
    parser.add_argument("--list", type=Path, metavar="FILE", help="write a line for each difference here")
    options = parser.parse_args()
    if not options.hapi and not options.answers:
        parser.error("name the script that starts HAPI, or --answers")
    plan, starts = _starts(options)
    results, differences = Counter[tuple[str, str]](), []
    with own_server() as base:
        for expected, (case, actual) in zip(answers.stable(starts), answers.ask(base, plan), strict=True):
            difference = compare(case, expected, actual) if expected else None
            results[case.tier, "unstable" if expected is None else "different" if difference else "equal"] += 1
            if difference:
                differences.append(difference)
    clusters = clustered(differences)
    show(clusters[: options.show])
    if options.docs:
        shown = [[(example.case, example.hapi, example.ours) for example in cluster] for cluster in clusters]
        report.put_into(options.docs, report.tables(plan, len(starts), results, shown))
    if options.list:
        lines = (f"{' '.join(example.cluster)}\t{example.case.method} {example.case.url}\n" for example in differences)
        options.list.write_text("".join(lines), "utf-8")
    print()
    for tier in TIERS:
        equal, different = results[tier, "equal"], results[tier, "different"]
        if equal + different:
            share = f"{equal} of {equal + different} equal ({100 * equal / (equal + different):.1f} %)"
            print(
                f"{tier}: {share}; {results[tier, 'status']} of other status; {results[tier, 'unstable']} not counted"
            )


if __name__ == "__main__":
    main()
