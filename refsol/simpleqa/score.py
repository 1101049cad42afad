"""Figures from judged rows: the label under a rule, or a panel's majority, counted by language and group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

from refsol.agreement import self_judged
from refsol.simpleqa.metrics import Bounds, Calibration, Tally, bounds_of, calibrate, confidence_of
from refsol.simpleqa.verdict import CORRECT, INCORRECT, LABELS, LETTERS, Label, Rule, read_verdict

Outcome = Literal[
    "correct", "incorrect", "not_attempted", "unscored", "left_out", "judge_errors", "unanswered", "not_judged"
]
Vote = Literal["correct", "incorrect", "not_attempted", "no label", "failed call"]
VOTES: tuple[Vote, ...] = get_args(Vote)

# HuSimpleQA's eight groups, in the order of its published table. Other groups follow in alphabetical order.
DIMENSIONS = (
    "language",
    "history",
    "life/culture/custom",
    "education/profession",
    "geography/place",
    "figure",
    "politics/policy/law",
    "business/finance",
)


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """A question with its answer and judgements. `item` is the question's id if `id` differs (a repetition).

    `group` is empty for a row without one. `prediction` is the model's reply; None if its call failed. `judged` maps
    every judge's name to its reply, or None if that judge's call failed. It is empty if some judges were not called
    yet.
    """

    id: str
    language: str
    group: str
    prediction: str | None
    judged: Mapping[str, str | None]
    item: str = ""


@dataclass(frozen=True, slots=True)
class Counted:
    """The outcome of a judged answer. `confidence` is the model's stated confidence, 0 to 1."""

    item: str
    language: str
    group: str
    outcome: Outcome
    confidence: float | None = None

    @classmethod
    def of(cls, row: JudgedAnswer, outcome: Outcome) -> Counted:
        """The row with its outcome."""
        return cls(row.item or row.id, row.language, row.group, outcome, confidence_of(row.prediction or ""))


@dataclass(frozen=True, slots=True)
class JudgedSet:
    """One data set, answered by a model and judged: the input of a score.

    `json_labels`: the judges were asked for JSON labels, not letters. `warnings`: what a reader of the scores must
    know. `rule`: the rule that the judgements were made for.
    """

    model: str
    dataset: str
    rows: tuple[JudgedAnswer, ...]
    json_labels: bool
    warnings: tuple[str, ...] = ()
    rule: Rule = "robust"

    @property
    def judges(self) -> tuple[str, ...]:
        """The names of all judges in order of appearance."""
        return tuple(dict.fromkeys(judge for row in self.rows for judge in row.judged))


@dataclass(frozen=True, slots=True)
class Section:
    """The scores of one language, or of all languages (`name` is then `all`), with intervals."""

    name: str
    total: Tally
    groups: Mapping[str, Tally]
    calibration: Calibration
    bounds: Bounds
    group_bounds: Mapping[str, Bounds]


_MEANINGS: dict[str, Label] = {**LETTERS, **{label: label for label in LABELS}}


@lru_cache(maxsize=1 << 8)  # judges use few different replies
def label_of(reply: str, rule: Rule) -> Label | None:
    """The label that `rule` reads, with letters translated. None if it reads nothing or a word that is not a label."""
    return _MEANINGS.get(read_verdict(reply, rule) or "")


def verdict_of(reply: str, rule: Rule) -> Label | Literal["left_out", "unscored"] | None:
    """The verdict of one judge's reply. Published rules give one for every reply; only `robust` can give None."""
    label = label_of(reply, rule)
    if label is not None or rule == "robust":
        return label
    return "left_out" if rule == "husimpleqa" and read_verdict(reply, rule) is None else "unscored"


def outcome_of(row: JudgedAnswer, rule: Rule) -> Outcome:
    """The outcome of a row. A panel's label needs more than half of all its judges, including those that failed."""
    if row.prediction is None:
        return "unanswered"
    if not row.judged:
        return "not_judged"
    replies = [reply for reply in row.judged.values() if reply is not None]
    if not replies:
        return "judge_errors"
    if len(row.judged) == 1 and verdict_of(replies[0], rule) == "left_out":
        return "left_out"
    votes = [label_of(reply, rule) for reply in replies]
    for label in LABELS:
        if 2 * votes.count(label) > len(row.judged):
            return label
    return "unscored"


def votes_of(judged: JudgedSet, rule: Rule) -> dict[str, Counter[Vote]]:
    """The votes of each judge of a panel by its name, and how often its calls failed."""
    votes: dict[str, Counter[Vote]] = {judge: Counter() for judge in judged.judges}
    for row in judged.rows:
        for judge, reply in row.judged.items():
            votes[judge]["failed call" if reply is None else label_of(reply, rule) or "no label"] += 1
    return votes


def score(rows: Iterable[JudgedAnswer], rule: Rule = "robust") -> list[Section]:
    """The scores under `rule`: one section per language in order of appearance, then one over all if there are more.

    Groups are in a fixed order. If one of HuSimpleQA's eight occurs, all eight are shown. If all rows are without a
    group, there are no groups.
    """
    return sections_of([Counted.of(row, outcome_of(row, rule)) for row in rows])


def sections_of(rows: Sequence[Counted]) -> list[Section]:
    """The scores of rows with known outcomes; see `score`."""
    languages = list(dict.fromkeys(row.language for row in rows))
    sections = [_section(name, [row for row in rows if row.language == name]) for name in languages]
    return sections if len(sections) == 1 else [*sections, _section("all", rows)]


def warnings_of(judged: JudgedSet, rule: Rule) -> list[str]:
    """What a reader of the scores under `rule` must know."""
    warnings = [*judged.warnings, *self_judged(judged.model, judged.judges)]
    if rule in ("letter", "strict") and judged.json_labels:
        warnings.append(
            f"{judged.dataset}: the judge was asked for JSON labels, and the rules {rule} look for a letter:"
            " under `letter`, CORRECT is read as C (not attempted) and NOT_ATTEMPTED as A (correct)"
        )
    return warnings


def in_order(groups: Iterable[str]) -> list[str]:
    """The groups in their fixed order: HuSimpleQA's eight (all if one occurs), then the others by name."""
    names = set(groups)
    if names == {""}:
        return []
    known = DIMENSIONS if names & set(DIMENSIONS) else ()
    return [*known, *sorted(names - set(known))]


def _section(name: str, rows: Sequence[Counted]) -> Section:
    questions: dict[str, dict[str, list[Outcome]]] = {}  # the outcomes of each question's rows, by group
    for row in rows:
        questions.setdefault(row.group, {}).setdefault(row.item, []).append(row.outcome)
    tallies = {group: _tallies(labels.values()) for group, labels in questions.items()}
    groups = in_order(questions)
    attempted = ((row.confidence, row.outcome == CORRECT) for row in rows if row.outcome in (CORRECT, INCORRECT))
    whole: Counter[Tally] = Counter()
    for labels in tallies.values():
        whole.update(labels)
    return Section(
        name,
        _sum(whole),
        {group: _sum(tallies.get(group, {})) for group in groups},
        calibrate(attempted),
        bounds_of(whole),
        {group: bounds_of(tallies.get(group, {})) for group in groups},
    )


def _tallies(questions: Iterable[Sequence[Outcome]]) -> Counter[Tally]:
    """The number of questions per tally. Few different tallies occur."""
    tallies: Counter[Tally] = Counter()
    for outcomes, times in Counter(map(tuple, questions)).items():
        counts: Counter[str] = Counter(outcomes)
        tallies[Tally(**counts)] += times
    return tallies


def _sum(tallies: Mapping[Tally, int]) -> Tally:
    """The tally of all rows, from the number of questions per tally."""
    counts: Counter[str] = Counter()
    for tally, times in tallies.items():
        for outcome in get_args(Outcome):
            counts[outcome] += times * getattr(tally, outcome)
    return Tally(**counts)
