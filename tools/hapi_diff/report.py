"""The result of a comparison as the tables between two markers of docs/hapi-record.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tools.hapi_diff.answers import Plan
from tools.hapi_diff.client import Answer, Case
from tools.hapi_diff.grammar import TIERS

BEGIN, END = "<!-- made by tools/hapi_diff -->", "<!-- end -->"
LONGEST = 90
"""Longer requests are cut."""
Cluster = Sequence[tuple[Case, Answer, Answer]]
"""Requests that are answered otherwise by the same cause: each with HAPI's answer and this server's."""


def tables(plan: Plan, starts: int, results: Counter[tuple[str, str]], clusters: Iterable[Cluster]) -> str:
    """The shares by tier, and a line for each cluster with its shortest request."""
    lines = [
        f"{plan.count:,} requests of seed {plan.seed}, compared with {starts} starts of HAPI:",
        "",
        "| tier | counted | equal | not counted |",
        "|---|---|---|---|",
    ]
    for tier in TIERS:
        equal, different = results[tier, "equal"], results[tier, "different"]
        if equal + different:
            share = f"{equal:,} ({100 * equal / (equal + different):.1f} %)"
            lines.append(f"| {tier} | {equal + different:,} | {share} | {results[tier, 'unstable']} |")
    lines += ["", "What differed, by cause, each with its shortest request:", "", "| times | tier | request | how |"]
    lines.append("|---|---|---|---|")
    for cluster in clusters:
        case, hapi, ours = min(cluster, key=lambda difference: len(difference[0].url) + len(difference[0].body or ""))
        lines.append(f"| {len(cluster)} | {case.tier} | {_request(case)} | {_how(hapi, ours)} |")
    return "\n".join(lines) + "\n"


def _request(case: Case) -> str:
    text = f"{case.method} {case.url}" + (f" {case.body}" if case.body else "")
    text = text if len(text) <= LONGEST else text[:LONGEST] + "…"
    return f"`{re.sub(r'[`|]', '?', text)}`"


def _how(hapi: Answer, ours: Answer) -> str:
    if hapi.status != ours.status:
        return f"{hapi.status} at HAPI, {ours.status} here"
    if hapi.headers.get("content-type") != ours.headers.get("content-type"):
        return f"{hapi.headers.get('content-type', 'nothing').partition(';')[0]} at HAPI"
    if hapi.entries != ours.entries:
        return "the order of entries" if sorted(hapi.entries) == sorted(ours.entries) else "which entries"
    totals = [re.search(r'"total": (\d+)', answer.body) for answer in (hapi, ours)]
    if [total and total[1] for total in totals] != [totals[0] and totals[0][1]] * 2:
        return "`total`"
    return "the text"


def put_into(page: Path, text: str) -> None:
    """Puts the tables in the place of those that the page holds."""
    before, _, rest = page.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{page}: no {BEGIN} … {END}; add these two markers")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}", "utf-8")
