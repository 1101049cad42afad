"""`medagent run imapscore`, from the items to their recorded imaps.

Items are run through the engine into the journal; `imaps.jsonl` is derived from it, in the order of the data, and is
what `medagent imapscore` works on. An item that the endpoint failed stands there as extraction_failed until the same
command has run it again.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from medagent.imapscore.config import ImapscoreConfig
from medagent.imapscore.extract import G_EVAL
from medagent.imapscore.job import ExtractionJob, ItemRow, ItemUnit
from medagent.imapscore.prompts import load_prompts
from medagent.run.engine import Summary, carry_out, run_units
from medagent.run.files import write_whole
from medagent.run.folder import RunFolder
from medagent.run.journal import Journal
from medagent.run.local import LocalExecutor
from medagent.run.progress import Progress
from refsol.imapscore.imap import Imap
from refsol.imapscore.ontologies import load_graph
from refsol.imapscore.records import RatedAnswer, Recording, RecordingRow, read_items, recording_row

DONE, FAILED = 0, 2
IMAPS = "imaps.jsonl"
_NAMED_FAILURES = 10


def run_imapscore(config: ImapscoreConfig, *, quiet: bool = False) -> int:
    """Run it; returns the exit code: 0 done, 2 some items failed at the endpoint or were not reached.

    Raises UserError, InputError, StopRunError and KeyboardInterrupt; what was extracted by then is on disk.
    """
    items = read_items(config.data)
    prompts = load_prompts()
    graph = None if config.graph is None else load_graph(config.graph)
    for warning in graph.warnings if graph else ():
        _say(f"warning: {warning}")
    job = ExtractionJob(config.model, prompts, config.cache, config.min_votes, graph, config.g_eval, config.concurrency)
    units, executor = [ItemUnit(item) for item in items], LocalExecutor(config.concurrency)
    with RunFolder(
        config.folder,
        "medagent run imapscore",
        config.settings(prompts),
        places=config.places(),
        overwrite=config.overwrite,
    ) as folder:
        journal = Journal(folder.journal_path, ItemRow)
        try:
            summary = carry_out(
                run_units(job, units, journal, executor, Progress(quiet=quiet), config.limits), folder.command
            )
            if summary.stopped:
                _say(f"{summary.stopped}; {len(summary.owed)} of {summary.total} items are still owed.")
                _say(f"Continue with a higher limit, or none: {folder.command}")
                return FAILED
            _write_imaps(config, items, journal)
            _say_unscored(len(items), journal)
            _say_failures(summary, journal, folder.command)
        finally:
            journal.close()
    return FAILED if summary.owed else DONE


def _write_imaps(config: ImapscoreConfig, items: Sequence[RatedAnswer], journal: Journal[ItemRow]) -> None:
    """Derive the recordings from the journal, in the order of the data."""
    rows = {row.unit: row for row in journal.rows()}
    lines = []
    for item in items:
        row = rows[item.id]
        recording = row.recording or recording_row(
            Recording(
                item.id,
                item.digest,
                Imap(),
                Imap(),
                Imap(),
                failure="extraction_failed",
                reason=row.error or row.status,
            )
        )
        lines.append(recording.line() + "\n")
    path = config.folder / IMAPS
    write_whole(path, "".join(lines))
    _say(f"wrote {path}; on with: medagent imapscore score {path}")


def _say_unscored(items: int, journal: Journal[ItemRow]) -> None:
    """How many items the model's replies leave without a score or a rating, and the first of each kind."""
    unscored: dict[str, list[RecordingRow]] = {}
    unrated: list[tuple[str, str]] = []
    for row in journal.rows():
        if row.recording is not None and row.recording.failure is not None:
            unscored.setdefault(row.recording.failure, []).append(row.recording)
        elif row.recording is not None:
            unrated += [(row.unit, text) for text in row.recording.warnings if text.startswith(G_EVAL)][:1]
    for failure, found in unscored.items():
        _say(f"{len(found)} of {items} items: {failure} (first: item {found[0].id}: {found[0].reason})")
    if unrated:
        _say(f"{len(unrated)} of {items} items lack a rating (first: item {': '.join(unrated[0])})")


def _say_failures(summary: Summary, journal: Journal[ItemRow], command: str) -> None:
    if not summary.owed:
        return
    owed = set(summary.owed)
    failed = [row for row in journal.rows() if row.unit in owed]
    for row in failed[:_NAMED_FAILURES]:
        _say(f"item {row.unit}: {row.error or row.status}")
    if len(failed) > _NAMED_FAILURES:
        _say(f"and {len(failed) - _NAMED_FAILURES} more, see {journal.path}")
    _say(f"{len(failed)} of {summary.total} items failed and are owed. Continue: {command}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
