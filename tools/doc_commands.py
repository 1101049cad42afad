"""The commands that the documentation shows, and what each needs that a machine has not by default.

A command without a need is run by a test. The site prints the needs below each block; `tests/test_doc_commands.py`
holds that every `medagent` command is one that there is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

FENCED = re.compile(r"^```[^\n]*\n.*?^```$", re.MULTILINE | re.DOTALL)
PROGRAMS = r"(?:\.venv/bin/)?(?:medagent|python|docker|make|pip|pipx|uvx|pytest|curl|vllm|ollama|export|npm|git)(?: |$)"
NEEDS: tuple[tuple[str, str], ...] = (
    (r"\bdocker\b", "Docker"),
    (r"--model (?!scripted:|\S+\.py:|always\b)|--judge |^export OPENAI", "a model: a key, or an endpoint of your own"),
    (r"^(vllm|ollama) ", "vLLM or Ollama"),
    (r"--fhir http|--to http", "a FHIR server at that address"),
    (r"--cluster |\[cluster\]", "a Dask cluster"),
    (r"--dataset official|data import", "a checkout of the official repository"),
    (r"--official ", "your copy of the official grader"),
    (r"\bserve\b|-m fhir_server|^curl ", "a terminal of its own, for the server"),
    (r"^medagent (mcp|a2a)\b|^inspect |export inspect", "the extra that the page names"),
    (r"--open\b", "a browser"),
    (r"^make (clients|hapi-diff|browser|integrations|release|docs|test-openai2)", "what the command's line says"),
    (r"^(pip|pipx|uvx) ", "a package index that has medagent"),
    (r"^(make|git) |-m pytest|-m benchmarks|^python tools", "a checkout"),
    (r"[a-z_]+\.(?:py|jsonl?)\b|\b[A-Z]{3,}(_[A-Z]+)*\b", "files of yours"),
    (r"^medagent run$", "a medagent.toml"),
    (r"--patients 300", "some minutes"),
    (
        r"results/\S*gpt-4o|RUN@|results/v2_(?!r\d_(?:reference|nop)\b)|results/sums|RUN|baseline",
        "the runs that it names",
    ),
    (r"…|^medagent (run sums\b|run --agent age\b)", "what stands above it"),
)
"""Patterns of commands, and what each match means."""


def commands(fence: str) -> Iterator[str]:
    """The commands of a fenced block, without their prompts and comments."""
    language, _, body = fence.removeprefix("```").partition("\n")
    for line in body.removesuffix("```").replace("\\\n", " ").splitlines():
        text = line.strip()
        if language == "console":
            if not text.startswith("$ "):
                continue
            text = text[2:]
        elif language not in ("", "sh"):
            continue
        text = re.sub(r"\s+(#.*|&)$", "", text).removeprefix(".venv/bin/")
        if re.match(PROGRAMS, text):
            yield re.sub(r"\s+", " ", text)


def needs(command: str) -> list[str]:
    """What a command needs beside an installed medagent."""
    return [need for pattern, need in NEEDS if re.search(pattern, command)]
