"""The commands in the documentation, and what each needs besides an installed medagent.

A test runs every command that needs nothing else. The site prints the needs below each block.
`tests/test_doc_commands.py` checks that every `medagent` command exists.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

FENCED = re.compile(r"^```[^\n]*\n.*?^```$", re.MULTILINE | re.DOTALL)
PROGRAMS = r"(?:\.venv/bin/)?(?:medagent|python|docker|make|pip|pipx|uvx|pytest|curl|vllm|ollama|export|npm|git)(?: |$)"
NEEDS: tuple[tuple[str, str], ...] = (
    (r"\bdocker\b", "Docker"),
    (r"--model (?!scripted:|\S+\.py:|always\b)|--judge |^export OPENAI", "a model: a key, or your own endpoint"),
    (r"^(vllm|ollama) ", "vLLM or Ollama"),
    (r"--fhir http|--to http|--from http", "a FHIR server at that address"),
    (r"--cluster |\[cluster\]", "a Dask cluster"),
    (r"--dataset official|data import", "a checkout of the official repository"),
    (r"--official ", "your copy of the official grader"),
    (r"\bserve\b|medagent view|-m fhir_server|^curl ", "a separate terminal for the server"),
    (r"^medagent (mcp|a2a)\b|^inspect |export inspect", "the extra that the page names"),
    (r"--open\b", "a browser"),
    (r"^make (clients|hapi-diff|images|integrations|release|docs|test-openai2)", "the tools that the page names"),
    (r"^(pip|pipx|uvx) ", "a package index that has medagent"),
    (r"^(make|git) |-m pytest|-m benchmarks|^python (?:-m )?tools", "a checkout"),
    (r"[a-z_\d]+\.(?:py|jsonl?)\b|\b[A-Z]{3,}(_[A-Z]+)*\b|\bmimic\b", "your own files"),
    (r"^medagent run( --config medagent.toml)?$", "a medagent.toml"),
    (r"--patients 300", "a few minutes"),
    (
        r"results/\S*gpt-4o|RUN@|results/v2_(?!r\d_(?:reference|nop)\b)|results/sums|RUN|baseline|lm-eval/",
        "the runs that it names",
    ),
    (r"…|^medagent (run sums\b|run --agent age\b)", "the steps above"),
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
    """What a command needs besides an installed medagent."""
    return [need for pattern, need in NEEDS if re.search(pattern, command)]
