"""Agreement between samples of one extraction: what at least `min_votes` of them say is kept.

The paper samples three times and keeps what all three agree on; two of three is this project's default.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Literal, TypeVar

from refsol.imapscore.imap import Imap
from refsol.imapscore.relations import Relation, Relations, ValuePair

Vote = TypeVar("Vote", bound=Hashable)


def agreed(samples: Iterable[Iterable[Vote]], min_votes: int) -> tuple[Vote, ...]:
    """What at least `min_votes` samples hold, in order of first appearance."""
    votes: Counter[Vote] = Counter()
    for sample in samples:
        votes.update(list(dict.fromkeys(sample)))
    return tuple(vote for vote, count in votes.items() if count >= min_votes)


def agreed_imap(samples: Sequence[Imap], min_votes: int, component: Literal["query", "inform"]) -> Imap | None:
    """The imap that the samples agree on, or None where they agree on no pair of `component` nor on its absence."""
    imap = Imap(
        agreed((sample.query for sample in samples), min_votes),
        agreed((sample.constraint for sample in samples), min_votes),
        agreed((sample.inform for sample in samples), min_votes),
        explicit_none=sum(sample.explicit_none for sample in samples) >= min_votes,
    )
    empty_votes = sum(not getattr(sample, component) for sample in samples)
    return imap if getattr(imap, component) or empty_votes >= min_votes else None


def agreed_relations(samples: Sequence[Relations], min_votes: int) -> dict[ValuePair, Relation]:
    """The relations that the samples agree on; a pair on which they differ is left out, and so unmatched.

    Where `min_votes` lets two relations of a pair pass, the one seen first stays.
    """
    return dict(reversed(agreed((sample.items() for sample in samples), min_votes)))
