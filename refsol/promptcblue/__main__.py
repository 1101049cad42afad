"""`python -m refsol.promptcblue`: parse, score and package with the standard library alone."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from refsol.errors import InputError
from refsol.files import ENCODINGS
from refsol.promptcblue._package import package_file
from refsol.promptcblue.files import edition_of_file, parse_file
from refsol.promptcblue.parse import Problem
from refsol.promptcblue.public import EDITIONS
from refsol.promptcblue.score import score_files


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code: 0, or 1 if the input cannot be used."""
    options = _parser().parse_args(arguments)
    commands = {"parse": _parse, "score": _score, "package": _package}
    try:
        warnings = commands[options.command](options)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for warning in warnings:
        print(warning, file=sys.stderr)
    return 0


def _parse(options: argparse.Namespace) -> Sequence[Problem]:
    edition = EDITIONS[options.edition] if options.edition else edition_of_file(options.predictions, options.encoding)
    problems = parse_file(options.predictions, options.results, edition, options.encoding)
    print(f"edition: {edition.name}")
    return problems


def _score(options: argparse.Namespace) -> Sequence[Problem]:
    plain = options.metrics == "plain"
    scores = score_files(
        options.results,
        options.gold,
        options.tasks,
        plain=plain,
        edition=EDITIONS.get(options.edition),
        encoding=options.encoding,
    )
    if options.json or options.details:
        print(json.dumps(scores.to_json(details=options.details), ensure_ascii=False, indent=2))
    else:
        print(f"edition: {scores.edition.name}")
        print(scores.table())
    return scores.warnings


def _package(options: argparse.Namespace) -> Sequence[Problem]:
    warnings = package_file(options.predictions, options.out)
    print(f"wrote {options.out}")
    return warnings


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m refsol.promptcblue", description="PromptCBLUE, 16 or 18 tasks.")
    commands = parser.add_subparsers(dest="command", required=True)
    parse = commands.add_parser("parse", help="turn model texts (predictions) into structured answers")
    parse.add_argument("predictions", type=Path)
    parse.add_argument("results", type=Path)
    _read_options(parse)
    score = commands.add_parser("score", help="score structured answers against a gold file")
    score.add_argument("results", type=Path)
    score.add_argument("--gold", type=Path, required=True)
    score.add_argument("--json", action="store_true", help="print the official JSON, not rounded")
    score.add_argument("--details", action="store_true", help="print JSON with all scores of each task")
    score.add_argument("--tasks", help="score only these tasks, for example CMeEE-V2,CMeIE")
    score.add_argument("--metrics", choices=("official", "plain"), default="official")
    _read_options(score)
    package = commands.add_parser("package", help="write the zip file that the PromptCBLUE platform accepts")
    package.add_argument("predictions", type=Path)
    package.add_argument("--out", type=Path, default=Path("test_predictions.zip"))
    return parser


def _read_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--edition", choices=tuple(EDITIONS), help="edition (default: detected from the file's tasks)")
    parser.add_argument("--encoding", choices=ENCODINGS, default="utf-8", help="encoding of the files")


if __name__ == "__main__":
    sys.exit(main())
