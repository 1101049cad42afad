"""The pages of the documentation, in the order of the site's menu.

    python -m tools.doc_menu    # checks that each page below docs/ is listed; prints the words of README.md

`make docs` runs this, and so does `tests/test_docs.py`. README.md has a limit of words, as `wc -w` counts them, because
a newcomer reads all of it. The other pages have none.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README_WORDS = 650
PARTS: dict[str, tuple[str, ...]] = {
    "Start": ("README.md", "tutorial.md", "write-an-agent.md", "how-it-works.md"),
    "Run": (
        "running.md",
        "models.md",
        "comparable.md",
        "read-results.md",
        "skills.md",
        "other-tools.md",
        "report.md",
        "grade.md",
        "judging.md",
        "data.md",
        "cluster.md",
        "ci.md",
    ),
    "Build": (
        "agents.md",
        "code.md",
        "clinical.md",
        "own-hospital.md",
        "benchmarks.md",
        "extension-points.md",
        "integrations/README.md",
        "integrations/inspect.md",
        "integrations/harbor.md",
        "integrations/verifiers.md",
        "integrations/training.md",
        "integrations/openenv.md",
        "integrations/mcp.md",
        "integrations/a2a.md",
    ),
    "FHIR": ("testing.md", "fhir-server.md", "hapi.md"),
    "Benchmarks": (
        "medagentbench.md",
        "psb-300.md",
        "fhir-agentbench.md",
        "promptcblue.md",
        "simpleqa.md",
        "imapscore.md",
    ),
    "Reference": (
        "config.md",
        "grading.md",
        "results-file.md",
        "statuses.md",
        "provider-errors.md",
        "glossary.md",
    ),
    "Explanation": ("statistics.md", "checklist.md", "data-card.md"),
    "Contribute": ("architecture.md", "performance.md", "checked.md", "hapi-record.md"),
}
"""By part of the menu: the pages below docs/."""


def problems() -> list[str]:
    """The pages that are missing or not listed, and whether README.md is too long; one line each."""
    docs = ROOT / "docs"
    listed = {page for pages in PARTS.values() for page in pages}
    present = {str(path.relative_to(docs)) for path in docs.rglob("*.md")}
    wrong = [f"docs/{page} is not listed in tools/doc_menu.py" for page in sorted(present - listed)]
    wrong += [f"docs/{page} is missing" for page in sorted(listed - present)]
    words = len((ROOT / "README.md").read_text(encoding="utf-8").split())
    if words > README_WORDS:
        wrong.append(f"README.md: {words} words, at most {README_WORDS}")
    return wrong


def main() -> int:
    """Print the problems; 1 if there are any."""
    wrong = problems()
    print("\n".join(wrong) or f"{sum(map(len, PARTS.values()))} pages are listed")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
