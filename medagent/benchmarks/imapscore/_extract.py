"""From an item's texts to its recording: question imap, label and response imaps, relations, each by votes.

Each stage makes SAMPLES calls, shared with all items with the same prompt. A stage without a usable result ends the
item with a failure and its reason. Relations by a chat model need one prompt with the numbered open values of an item:
each line of the reply is a JSON object with two numbers and the relation, at any place. An unknown number, or a pair
across terms, is left out with a warning. A pair without a line is unmatched.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from medagent.benchmarks.imapscore._encoder import Encoder
from medagent.benchmarks.imapscore._prompts import NO_EXAMPLES, ExampleTurns, Prompts
from medagent.benchmarks.imapscore._samples import Asked, ParsedReply, Sampler, SampleVotes, UnusableError, together
from medagent.engine.rows import Spent
from medagent.models.wording import fill
from refsol.imapscore.graph import Linker
from refsol.imapscore.imap import Imap, parse, serialise, tidy
from refsol.imapscore.metrics import ON_IMAPS
from refsol.imapscore.records import RatedAnswer, Recording
from refsol.imapscore.relations import Graph, Relation, Relations, ValuePair, matching_pairs, open_pairs
from refsol.imapscore.votes import agreed_imap, agreed_relations

G_EVAL = "g-eval"
_RATING = re.compile(r"(?<![\d.])(?:5|[1-4](?:\.\d+)?)(?![\d.]*\d)")

Component = Literal["query", "inform"]


@dataclass(frozen=True, slots=True)
class Extractor:
    """Extracts items with a model. A `linker`'s graph determines relations first; `g_eval` adds that metric."""

    sampler: Sampler
    prompts: Prompts
    min_votes: int = 2
    linker: Linker | None = None
    g_eval: bool = False
    encoder: Encoder | None = None
    examples: ExampleTurns = NO_EXAMPLES

    async def record(self, item: RatedAnswer, spent: Spent, trial: int = 1) -> Recording:
        """The recording of `item`. `spent` counts the calls. Raises the errors of `Policy.next`."""
        ballot = SampleVotes(self.sampler, self.min_votes, spent, trial)
        recording = Recording(item.id, item.digest, Imap(), Imap(), Imap())
        try:
            recording = replace(recording, question=await self._question(ballot, item))
            label, response = await together(
                self._answer(ballot, recording.question, item, "label", item.label),
                self._answer(ballot, recording.question, item, "response", item.response),
            )
            recording = replace(recording, label=label, response=response)
            recording = replace(recording, relations=await self._relations(ballot, item, label, response))
            if self.g_eval:
                recording = replace(recording, scores=await self._ratings(ballot, item, recording))
        except UnusableError as end:
            recording = replace(recording, failure=end.failure, reason=str(end))
        return replace(recording, warnings=ballot.warnings)

    async def _question(self, ballot: SampleVotes, item: RatedAnswer) -> Imap:
        prompt = Asked(self.prompts.of_question(item.question), self.examples.questions)
        return await _imap(ballot, "question", prompt, (), "query")

    async def _answer(self, ballot: SampleVotes, question: Imap, item: RatedAnswer, side: str, answer: str) -> Imap:
        terms = question.query_terms
        prompt = Asked(self.prompts.of_answer(item.question, terms, answer), self.examples.answers)
        return await _imap(ballot, side, prompt, terms, "inform")

    async def _relations(self, ballot: SampleVotes, item: RatedAnswer, label: Imap, response: Imap) -> Relations:
        """Relations from the graph (with the encoder, if there is one), then from the model for the open pairs."""
        relations: dict[ValuePair, Relation] = {}
        if self.linker is not None:
            pairs = open_pairs(label, response, {})
            if self.encoder is not None:
                values = [tidy(text) for pair in pairs for text in (pair.label, pair.response)]
                await self.encoder.settle(self.linker, values)
            relations.update(Graph(self.linker).find(pairs))
        if pairs := open_pairs(label, response, relations):
            relations.update(await ModelRelations(ballot, self.prompts, item.question).find(pairs))
        return matching_pairs(label, response, relations)

    async def _ratings(self, ballot: SampleVotes, item: RatedAnswer, recording: Recording) -> dict[str, float]:
        """The mean rating of the texts, and of their serialised imaps. A missing rating becomes a warning."""
        imaps = (serialise(recording.label), serialise(recording.response))
        ratings: dict[str, float] = {}
        for name, (label, response) in {G_EVAL: (item.label, item.response), G_EVAL + ON_IMAPS: imaps}.items():
            prompt = fill(self.prompts.g_eval, question=item.question, label=label, response=response)
            try:
                votes: list[float] = await ballot.votes(name, Asked(prompt), _rating)
                ratings[name] = fmean(votes)
            except UnusableError as error:
                ballot.warn(str(error))
        return ratings


async def _imap(ballot: SampleVotes, stage: str, prompt: Asked, terms: Sequence[str], component: Component) -> Imap:
    """The imap that the samples agree on. Raises UnusableError if they agree on nothing."""
    samples = await ballot.votes(stage, prompt, lambda reply: _read_imap(reply, terms, component))
    imap = agreed_imap(samples, ballot.min_votes, component)
    if imap is None:
        raise UnusableError("no_agreement", f"{stage}: no pair in {ballot.min_votes} of {len(samples)} samples")
    return imap


def _read_imap(reply: str, terms: Sequence[str], component: Component) -> ParsedReply[Imap]:
    """The part of a reply's imap for this stage; None if there is none."""
    parsed = parse(reply, terms)
    if component == "query":
        imap = Imap(parsed.imap.query, parsed.imap.constraint)
        readable = bool(imap.query)
    else:
        imap = Imap(inform=parsed.imap.inform, explicit_none=parsed.imap.explicit_none)
        readable = bool(imap.inform) or imap.explicit_none
    return ParsedReply(imap if readable else None, parsed.warnings)


def _rating(reply: str) -> ParsedReply[float]:
    match = _RATING.search(reply)
    return ParsedReply(float(match[0]) if match else None)


_OBJECT = re.compile(r"\{[^{}]*\}")
_NAMES = {"exact": "e", "belonging": "b", "containment": "c", "unmatched": "u"}


@dataclass(frozen=True, slots=True)
class ModelRelations:
    """Relates the values of one item with a model. Raises UnusableError if too few samples can be read."""

    ballot: SampleVotes
    prompts: Prompts
    question: str

    async def find(self, pairs: Sequence[ValuePair]) -> Relations:
        """The relations with enough votes of the ballot."""
        numbered = _number(pairs, self.prompts.values)
        prompt = fill(self.prompts.relations, question=self.question, values=numbered.text)
        samples = await self.ballot.votes("relations", Asked(prompt), lambda reply: _read(reply, numbered))
        return agreed_relations(samples, self.ballot.min_votes)


@dataclass(frozen=True, slots=True)
class _Numbered:
    """The values of some pairs, numbered across all terms and both sides.

    `labels` and `responses` contain the term of each number. Two numbers of one term may not be one of `pairs`: equal
    texts and pairs that a graph related are already decided.
    """

    text: str
    pairs: Mapping[tuple[int, int], ValuePair]
    labels: Mapping[int, str]
    responses: Mapping[int, str]


def _number(pairs: Sequence[ValuePair], template: str) -> _Numbered:
    """Number the values of `pairs`, term by term, and format them with `template`."""
    by_term: dict[str, list[ValuePair]] = {}
    for pair in pairs:
        by_term.setdefault(pair.key[0], []).append(pair)
    numbers: dict[tuple[int, str, str], int] = {}  # by side, term and value
    blocks = []
    for group in by_term.values():
        sides: list[str] = []
        for side, texts in ((1, [pair.label for pair in group]), (2, [pair.response for pair in group])):
            lines = []
            for text, pair in zip(texts, group, strict=True):
                place = (side, pair.key[0], pair.key[side])
                if place not in numbers:
                    numbers[place] = len(numbers) + 1
                    lines.append(f"{numbers[place]}. {text}")
            sides.append("\n".join(lines))
        blocks.append(fill(template, term=group[0].term, label=sides[0], response=sides[1]))
    numbered = {
        (numbers[1, term, label], numbers[2, term, response]): pair
        for pair in pairs
        for term, label, response in (pair.key,)
    }
    labels, responses = ({number: term for (at, term, _), number in numbers.items() if at == side} for side in (1, 2))
    return _Numbered("\n\n".join(blocks), numbered, labels, responses)


def _read(reply: str, numbered: _Numbered) -> ParsedReply[Relations]:
    """The relations of a reply. Unusable if no line relates two values of one term."""
    relations: dict[ValuePair, Relation] = {}
    warnings = []
    readable = False
    for text in _OBJECT.findall(unicodedata.normalize("NFKC", reply)):
        line = _line(text)
        if line is None:
            warnings.append(f"not a relation: {text}")
            continue
        label, response, relation = line
        term = numbered.labels.get(label)
        if not {label, response} <= numbered.labels.keys() | numbered.responses.keys():
            warnings.append(f"an unknown number: {text}")
        elif term is None or term != numbered.responses.get(response):
            warnings.append(f"not a value of A and one of B of the same term: {text}")
        else:
            readable = True
            pair = numbered.pairs.get((label, response))
            if pair is not None and relations.setdefault(pair, relation) is not relation:
                warnings.append(f"a second relation of one pair: {text}")
    return ParsedReply(relations if readable else None, warnings)


def _line(text: str) -> tuple[int, int, Relation] | None:
    """The two numbers and the relation in a JSON object. Numbers may be texts; relations may be spelled out."""
    try:
        fields = json.loads(text)
        relation = str(fields["relation"]).strip().lower()
        return int(fields["a"]), int(fields["b"]), Relation(_NAMES.get(relation, relation))
    except (ValueError, KeyError, TypeError):
        return None
