"""The pages of the documentation, in the order of the site's menu, each with its maximum number of words.

    python -m tools.doc_words    # prints the number of words of each page, and the sums

`make docs` prints this table, too, and `tests/test_docs.py` fails if a page is longer or is not listed. A word is what
`wc -w` counts, code included.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = 650
USERS = 35_000
CONTRIBUTORS = 3_000
LONGEST = 2_000
MEDIAN = 800
PARTS: dict[str, dict[str, int]] = {
    "Start": {"README.md": 250, "tutorial.md": 700, "write-an-agent.md": 900, "how-it-works.md": 600},
    "Run": {
        "running.md": 1_500,
        "models.md": 1_200,
        "comparable.md": 700,
        "read-results.md": 1_200,
        "other-tools.md": 650,
        "report.md": 500,
        "grade.md": 800,
        "judging.md": 700,
        "data.md": 900,
        "cluster.md": 700,
        "ci.md": 350,
    },
    "Build": {
        "agents.md": 1_600,
        "code.md": 700,
        "clinical.md": 1_500,
        "own-hospital.md": 1_200,
        "benchmarks.md": 1_600,
        "integrations/README.md": 250,
        "integrations/inspect.md": 500,
        "integrations/harbor.md": 500,
        "integrations/verifiers.md": 350,
        "integrations/training.md": 400,
        "integrations/openenv.md": 300,
        "integrations/mcp.md": 500,
        "integrations/a2a.md": 400,
    },
    "FHIR": {"testing.md": 1_000, "fhir-server.md": 900, "hapi.md": 900},
    "Benchmarks": {
        "medagentbench.md": 900,
        "psb-300.md": 900,
        "fhir-agentbench.md": 1_300,
        "promptcblue.md": 1_200,
        "simpleqa.md": 1_400,
        "imapscore.md": 1_200,
    },
    "Reference": {
        "config.md": 200,
        "grading.md": 1_800,
        "results-file.md": 1_800,
        "statuses.md": 360,
        "provider-errors.md": 700,
        "glossary.md": 500,
    },
    "Explanation": {"statistics.md": 800, "checklist.md": 1_500, "data-card.md": 800},
    "Contribute": {"architecture.md": 1_500, "performance.md": 700, "checked.md": 500, "hapi-record.md": 800},
}
"""By part of the menu: each page below docs/, and its maximum number of words."""


def count(path: Path) -> int:
    """The words of a page."""
    return len(path.read_text(encoding="utf-8").split())


def counts() -> dict[str, int]:
    """The words of every page below docs/, listed or not."""
    docs = ROOT / "docs"
    return {str(path.relative_to(docs)): count(path) for path in sorted(docs.rglob("*.md"))}


def problems() -> list[str]:
    """What is too long, missing or not listed; one line each."""
    words, limits = counts(), {page: limit for pages in PARTS.values() for page, limit in pages.items()}
    wrong = [f"docs/{page} is not listed in tools/doc_words.py" for page in sorted(words.keys() - limits.keys())]
    wrong += [f"docs/{page} is missing" for page in sorted(limits.keys() - words.keys())]
    readme = count(ROOT / "README.md")
    sums = [
        *((f"docs/{page}", words[page], limit) for page, limit in limits.items() if page in words),
        ("README.md", readme, README),
        ("the pages for users", _sum(words, contributors=False), USERS),
        ("the pages for contributors", _sum(words, contributors=True), CONTRIBUTORS),
        ("the longest page", max(words.values()), LONGEST),
        ("the median of the pages", int(statistics.median(words.values())), MEDIAN),
    ]
    return wrong + [f"{name}: {size:,} words, at most {limit:,}" for name, size, limit in sums if size > limit]


def _sum(words: dict[str, int], *, contributors: bool) -> int:
    theirs = PARTS["Contribute"]
    return sum(size for page, size in words.items() if (page in theirs) == contributors)


def main() -> int:
    """Print the table and the problems; 1 if there are any."""
    words = counts()
    for part, pages in PARTS.items():
        print(part)
        for page, limit in pages.items():
            print(f"  {page:28} {words.get(page, 0):>6,} of {limit:>6,}")
    print(f"Users {_sum(words, contributors=False):,}, contributors {_sum(words, contributors=True):,} words")
    wrong = problems()
    print("\n".join(wrong))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
