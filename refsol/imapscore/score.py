"""Equation 1 of the paper: recall + precision − λ for each term in both imaps, summed over the terms.

Fractions are exact. By default the sum is neither normalised nor clipped: a question with more terms can score higher,
and many c pairs can make a term negative. λ is the share of c pairs among the matching pairs; `Penalty` lists variants
for what the paper does not specify. The status of a score of 0 always gives the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from refsol.imapscore.graph import Linker
from refsol.imapscore.imap import Imap, TermValue, normal
from refsol.imapscore.records import Recording
from refsol.imapscore.relations import (
    Graph,
    Recorded,
    Relation,
    RelationFinder,
    Relations,
    ValuePair,
    find_relations,
)


class Penalty(StrEnum):
    """λ of a term. N_c counts its c pairs, N_m its e, b and c pairs."""

    RATIO = "ratio"  # N_c / N_m over all value pairs: equation 1
    COUNT = "count"  # N_c
    BEST = "best"  # the ratio over every value's best matches, from both sides, including ties
    OFF = "off"


class Normalize(StrEnum):
    """The divisor of the sum."""

    NONE = "none"
    LABEL = "label"  # twice the label's terms
    SHARED = "shared"  # twice the shared terms


class Status(StrEnum):
    """Whether there is a score, and why it is 0 if nothing could be compared."""

    OK = "ok"
    NO_SHARED_TERM = "no_shared_term"
    EMPTY_LABEL = "empty_label"
    EMPTY_RESPONSE = "empty_response"
    BOTH_EMPTY = "both_empty"
    NO_AGREEMENT = "no_agreement"  # the samples could be read, but too few agreed
    EXTRACTION_FAILED = "extraction_failed"  # no sample could be read, or the model failed


UNSCORED = frozenset({Status.NO_AGREEMENT, Status.EXTRACTION_FAILED})


@dataclass(frozen=True, slots=True)
class Link:
    """A matching value pair (e, b or c)."""

    pair: ValuePair
    relation: Relation


@dataclass(frozen=True, slots=True)
class TermScore:
    """The parts of one shared term's score."""

    term: str
    label: tuple[str, ...]
    response: tuple[str, ...]
    links: tuple[Link, ...]
    recall: Fraction
    precision: Fraction
    penalty: Fraction

    @property
    def value(self) -> Fraction:
        """recall + precision − λ."""
        return self.recall + self.precision - self.penalty


@dataclass(frozen=True, slots=True)
class ImapScore:
    """A score with its parts. `value` is None if the status is no_agreement or extraction_failed."""

    status: Status
    value: Fraction | None
    terms: tuple[TermScore, ...] = ()
    divisor: int = 1


def score(
    label: Imap,
    response: Imap,
    relations: Relations,
    *,
    penalty: Penalty = Penalty.RATIO,
    normalize: Normalize = Normalize.NONE,
) -> ImapScore:
    """Score `response` against `label`. Value pairs that are not in `relations` are unmatched."""
    labels, responses = label.informed, response.informed
    shared = [term for term in labels if term in responses]
    if not shared:
        return ImapScore(_nothing_shared(label, response), Fraction(0))
    links: dict[str, list[Link]] = {term: [] for term in shared}
    values, others = {pair.key for pair in label.inform}, {pair.key for pair in response.inform}
    for pair, relation in relations.items():
        term, value, response_value = pair.key
        if relation.matches and (term, value) in values and (term, response_value) in others:
            links[term].append(Link(pair, relation))
    terms = [_score_term(labels[term], responses[term], links[term], penalty) for term in shared]
    divisor = {Normalize.NONE: 1, Normalize.LABEL: 2 * len(labels), Normalize.SHARED: 2 * len(shared)}[normalize]
    total = sum((term.value for term in terms), Fraction(0))
    return ImapScore(Status.OK, total / divisor, tuple(terms), divisor)


def score_recordings(
    recordings: Iterable[Recording],
    linker: Linker | None = None,
    *,
    penalty: Penalty = Penalty.RATIO,
    normalize: Normalize = Normalize.NONE,
) -> list[ImapScore]:
    """Score the recording of each item. If there is a `linker`, its graph goes before the recorded relations."""
    results = []
    for recording in recordings:
        if recording.failure is not None:
            results.append(ImapScore(Status(recording.failure), None))
            continue
        finders: list[RelationFinder] = [Recorded(recording.relations)]
        if linker is not None:
            finders.insert(0, Graph(linker))
        relations = find_relations(recording.label, recording.response, finders)
        results.append(score(recording.label, recording.response, relations, penalty=penalty, normalize=normalize))
    return results


def _nothing_shared(label: Imap, response: Imap) -> Status:
    if label.inform and response.inform:
        return Status.NO_SHARED_TERM
    if label.inform:
        return Status.EMPTY_RESPONSE
    return Status.EMPTY_LABEL if response.inform else Status.BOTH_EMPTY


def _score_term(
    label: Sequence[TermValue], response: Sequence[TermValue], links: Sequence[Link], penalty: Penalty
) -> TermScore:
    return TermScore(
        label[0].term,
        tuple(pair.value for pair in label),
        tuple(pair.value for pair in response),
        tuple(links),
        recall=Fraction(len({link.pair.key[1] for link in links}), len(label)),
        precision=Fraction(len({link.pair.key[2] for link in links}), len(response)),
        penalty=_penalty(links, penalty),
    )


def _penalty(links: Sequence[Link], penalty: Penalty) -> Fraction:
    if penalty is Penalty.OFF:
        return Fraction(0)
    if penalty is Penalty.BEST:
        links = _best(links)
    contained = [link.relation for link in links].count(Relation.CONTAINMENT)
    if penalty is Penalty.COUNT:
        return Fraction(contained)
    return Fraction(contained, len(links)) if links else Fraction(0)


def _best(links: Sequence[Link]) -> list[Link]:
    """The links that are among the best of the value on either side."""
    order = list(Relation)
    best: dict[tuple[int, str], int] = {}
    for link in links:
        for side in (1, 2):
            end = (side, link.pair.key[side])
            best[end] = min(best.get(end, len(order)), order.index(link.relation))
    return [
        link for link in links if any(best[side, link.pair.key[side]] == order.index(link.relation) for side in (1, 2))
    ]


@dataclass(frozen=True, slots=True)
class AskedLabel:
    """An item: its id, the terms of its question, and the imap of its label."""

    id: str
    terms: tuple[str, ...]
    label: Imap


def majority_scores(items: Sequence[AskedLabel]) -> list[Fraction]:
    """The score of the majority response to each item. Entries with the same id are trials of one item.

    The response gives each requested term its value in most other items' labels; of equally frequent values, the first.
    The item's own label is not counted, because a rare term would then always be right. Values match if their texts are
    equal.
    """
    labels = {item.id: item.label for item in items}
    counts: dict[str, Counter[TermValue]] = {}
    for label in labels.values():
        for pair in label.inform:
            counts.setdefault(pair.key[0], Counter())[pair] += 1
    return [_score(item, labels, counts) for item in items]


def _score(item: AskedLabel, labels: Mapping[str, Imap], counts: Mapping[str, Counter[TermValue]]) -> Fraction:
    informed = set(labels[item.id].inform)
    frequent = (_most_frequent(counts.get(normal(term), Counter()), informed) for term in item.terms)
    response = Imap(inform=tuple(pair for pair in frequent if pair is not None))
    return score(item.label, response, find_relations(item.label, response)).value or Fraction(0)


def _most_frequent(counts: Mapping[TermValue, int], informed: Collection[TermValue]) -> TermValue | None:
    """The most frequent value of a term in the other labels; None if the term is in no label."""
    others = {pair: count - (pair in informed) for pair, count in counts.items()}
    return max((pair for pair in others if others[pair]), key=others.__getitem__, default=None)
