"""Measures imapScore offline: scoring stored items, and linking values to a large graph.

Targets: 10,000 stored items in under 5 s; 1,000 values linked to a graph of 50,000 names in under 5 s.
Run: python benchmarks/imapscore.py
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from refsol.imapscore.graph import Entity, EntityGraph, Linker
from refsol.imapscore.imap import Imap, TermValue
from refsol.imapscore.records import Recording, read_recordings, recording_row
from refsol.imapscore.relations import Relation, ValuePair
from refsol.imapscore.score import score_recordings

ITEMS, NAMES, VALUES = 10_000, 50_000, 1_000


@contextmanager
def timed(what: str) -> Iterator[None]:
    start, cpu = time.perf_counter(), time.process_time()
    yield
    sys.stdout.write(f"{what}: {time.perf_counter() - start:.2f} s ({time.process_time() - cpu:.2f} s of CPU)\n")


def words(rng: random.Random, count: int) -> str:
    syllables = ("ba", "cor", "den", "fi", "gos", "hem", "itis", "kal", "lum", "mor", "nep", "osis", "pul", "rhin")
    return " ".join("".join(rng.choices(syllables, k=rng.randint(2, 4))) for _ in range(count))


def recording(rng: random.Random, number: int) -> Recording:
    """An item of 1 to 3 terms with 1 to 3 values on each side: rather larger than the bundled ones."""
    terms = ("diagnosis", "treatment", "follow-up")[: rng.randint(1, 3)]
    label, response = (
        [TermValue(term, words(rng, 2)) for term in terms for _ in range(rng.randint(1, 3))] for _ in range(2)
    )
    relations = {
        ValuePair(labelled.term, labelled.value, answered.value): Relation(rng.choice("ebcu"))
        for labelled in label
        for answered in response
        if labelled.term == answered.term
    }
    question = Imap(tuple(TermValue(term, "?") for term in terms), (TermValue("age", str(rng.randint(1, 90))),))
    return Recording(
        str(number), f"{number:016x}", question, Imap(inform=tuple(label)), Imap(inform=tuple(response)), relations
    )


def main() -> None:
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "imaps.jsonl"
        path.write_text("\n".join(recording_row(recording(rng, i)).line() for i in range(ITEMS)), encoding="utf-8")
        with timed(f"{ITEMS} stored items read and scored"):
            score_recordings(read_recordings(path))

    names = sorted({words(rng, 3) for _ in range(NAMES)} | {f"{words(rng, 2)} {i}" for i in range(1000)})[:NAMES]
    entities = [Entity(name, (name,), (names[i // 10],) if i else ()) for i, name in enumerate(names)]
    with timed(f"a graph of {len(names)} names built"):
        linker = Linker(EntityGraph(entities))
    values = [name[:-1] if i % 2 else words(rng, 3) for i, name in enumerate(rng.sample(names, VALUES))]
    with timed(f"{VALUES} values linked, none of them an exact name"):
        linked = sum(bool(linker.link(value)) for value in values)
    sys.stdout.write(f"{linked} of them found an entity\n")


if __name__ == "__main__":
    main()
