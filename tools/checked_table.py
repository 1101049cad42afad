"""Counts the recorded cases that the tests check, and writes the table into docs/checked.md.

    python tools/checked_table.py

`tests/test_doc_commands.py` fails if the table differs from the files.
"""

from __future__ import annotations

import lzma
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tests" / "data"
PAGE = ROOT / "docs" / "checked.md"
BEGIN, END = "<!-- counts: python tools/checked_table.py -->", "<!-- counts end -->"


def lines(name: str) -> int:
    """The lines of a packed file."""
    with lzma.open(DATA / name, "rt", encoding="utf-8") as file:
        return sum(1 for line in file if line.strip())


def table() -> str:
    """The table in Markdown."""
    rows = [
        ("synthetic results items, each with the official grader's verdict", lines("medagentbench/cases.jsonl.xz")),
        ("episodes of the published runner over a real HAPI", lines("medagentbench/transcripts.jsonl.xz")),
        ("the same, with agents whose messages are malformed", lines("medagentbench/transcripts_odd.jsonl.xz")),
        ("exchanges with a real HAPI FHIR 7.6.0, replayed in order", lines("hapi/exchanges.jsonl.xz")),
        ("further exchanges recorded from a live HAPI", lines("hapi/live.jsonl.xz")),
        ("chains and `_has`, recorded from a live HAPI", lines("hapi/chains.jsonl.xz")),
        ("searches over resources of many types, recorded from a live HAPI", lines("hapi/searches.jsonl.xz")),
        ("examples of R4, each with the errors that HL7's validator reports", lines("hapi/validate.jsonl.xz")),
        ("synthetic items of psb-300, each with the published grader's verdict", lines("psb300/vectors.jsonl.xz")),
        (
            "evaluations of FHIR-AgentBench outputs by the published evaluators",
            lines("fhiragentbench/vectors.jsonl.xz"),
        ),
        ("model answers to PromptCBLUE, parsed by the official parser", lines("promptcblue/predictions.jsonl.xz")),
        ("the same, parsed by the published parser for 18 tasks", lines("promptcblue/public18.jsonl.xz")),
    ]
    return "\n".join(["| what | how many |", "|---|---|", *(f"| {what} | {count:,} |" for what, count in rows)])


def written(text: str) -> str:
    """The page with the table between its markers."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
