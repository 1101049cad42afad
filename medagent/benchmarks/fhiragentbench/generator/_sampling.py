"""Samples questions from charts, from all templates in turn, with true answers and true ids.

The answer to a question must be unambiguous: a single entry at the time in question, one unit, a short list of ids, and
a value that the comparison without a judge can decide. If a template allows questions without an answer, every fourth
question is one of these.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from fhir_server.synthetic.seeded_random import SeededRandom
from medagent.benchmarks.fhiragentbench._agents import stated
from medagent.benchmarks.fhiragentbench._chart_lookup import PLACES, answer, entries
from medagent.benchmarks.fhiragentbench._outputs import in_words
from medagent.benchmarks.fhiragentbench.generator._charts import Chart
from medagent.benchmarks.fhiragentbench.generator.wording import (
    Lookup,
    Template,
    assumption,
    coded_names,
    default_window,
    read,
    sentence,
    templates,
)
from medagent.core.errors import UserError
from refsol.fhiragentbench import Question, compare, family_of

MOST_IDS = 40
"""The most true ids of a question, so that people can check them."""
_TRIES = 60
_EMPTY_EVERY = 4
_BY_REFERENCE = 0.6
"""How often (as a probability) only drugs that their order gives by reference are used, because they are rare."""
_MEASURED = ("total", "agg", "per", "change", "compare", "when-extreme")
"""The operations on several values, which must be in the same unit."""
_PERIODS = (2, 12)
"""The fewest and the most values of a list by day, month or year."""


def sample(charts: Sequence[Chart], now: datetime, rng: SeededRandom, count: int) -> list[Question]:
    """`count` questions about charts. Raises UserError if the hospital contains too few patients for a template."""
    sampler = _QuestionSampler(charts, f"{now:%Y-%m-%d %H:%M:%S}", rng)
    numbers: dict[str, int] = {}
    questions = []
    for place in range(count):
        template = templates()[place % len(templates())]
        family = family_of(template.template)
        numbers[family] = numbers.get(family, 0) + 1
        name = f"{family}-{numbers[family]}"
        questions.append(sampler.question(name, template, place // len(templates())))
    return questions


def truth_text(values: Sequence[Any]) -> str:
    """True values in the format of the published file: a table with one column."""
    rows = [repr(int(value) if isinstance(value, bool) else value) for value in values]
    return "[" + "\n ".join(f"[{row}]" for row in rows) + "]"


class _QuestionSampler:
    def __init__(self, charts: Sequence[Chart], now: str, rng: SeededRandom) -> None:
        self._charts = charts
        self._now = now
        self._rng = rng
        self._sampled: set[str] = set()

    def question(self, name: str, template: Template, number: int) -> Question:
        """A question of a template. Raises UserError if no patient matches."""
        can_be_empty = template.windows not in (("ever",), ("current",)) or template.named > 0
        empty = can_be_empty and (templates().index(template) + number) % _EMPTY_EVERY == 0
        for _ in range(_TRIES):
            for chart in self._rng.shuffled(self._charts):
                lookup = self._draft(template, chart, empty=empty)
                question = self._question(name, template, number, chart, lookup, empty) if lookup else None
                if question is not None:
                    self._sampled.add(question.question)
                    return question
        raise UserError(
            f"the hospital contains no patient for a question of the template {template.template!r}: raise --patients"
        )

    def _question(
        self, name: str, template: Template, number: int, chart: Chart, lookup: Lookup, empty: bool
    ) -> Question | None:
        """The question of a lookup. None if its answer is ambiguous or the question was sampled before."""
        chosen = entries(lookup, self._now, chart.resources(lookup))
        values, ids = answer(lookup, self._now, chosen)
        if empty != (not ids) or not (empty or _is_plain(template, lookup, chosen, values)) or len(ids) > MOST_IDS:
            return None
        true_ids: dict[str, list[str]] = {}
        for kind, resource_id in ids:
            listed = true_ids.setdefault(kind, [])
            if resource_id not in listed:
                listed.append(resource_id)
        text = sentence(template, number, chart.patient, lookup)
        question = Question(
            id=name,
            question=text,
            true_answer=truth_text(values),
            true_ids=true_ids,
            template=template.template,
            patient=chart.patient,
            assumption=assumption(lookup, self._now),
        )
        readable = read(text) == lookup and text not in self._sampled
        return question if readable and compare(question, in_words(json.dumps(stated(values)))) else None

    def _draft(self, template: Template, chart: Chart, *, empty: bool) -> Lookup | None:
        """A lookup of a template for a chart. None if the chart contains no entries for it."""
        rng = self._rng
        known = chart.everything(template.kind)
        pool = known if not empty else rng.pick(self._charts).everything(template.kind)
        if not pool:
            return None
        lookup: Lookup = dict(template.fixed)
        rare = [entry for entry in pool if len(entry["ids"]) > 1 and template.kind == "drug"]
        prefers = template.kind == "drug" and rng.chance(_BY_REFERENCE)
        if prefers and not rare and not empty:
            return None
        seed = rng.pick(rare if prefers and rare else pool)
        if template.body:
            lookup["names"] = [coded_names("body")[template.body]]
        elif template.named:
            names = list(dict.fromkeys([seed["name"], *rng.shuffled(sorted({entry["name"] for entry in pool}))]))
            if len(names) < template.named or not all(names):
                return None
            lookup["names"] = names[: template.named]
        if template.routed:
            lookup["route"] = seed["route"]
        lookup["window"] = self._window(template, seed["time"])
        lookup |= self._choices(template)
        if template.sided:
            lookup |= {"side": rng.pick(("above", "below")), "limit": seed["value"]}
        return lookup

    def _choices(self, template: Template) -> Lookup:
        """Values for the slots of a template's first sentence, except names and the window."""
        rng, slots = self._rng, template.sentences[0]
        choices: Lookup = {}
        if "{agg}" in slots:
            choices["agg"] = rng.pick(template.aggs)
        if template.is_paired:
            places = sorted((rng.pick(("first", "second")), rng.pick(("second-to-last", "last"))))
            choices |= {"exact": min(places, key=_order), "other": max(places, key=_order)}
        elif "{exact}" in slots:
            choices["exact"] = rng.pick(template.exacts)
        if template.op == "compare":
            choices["side"] = rng.pick(("above", "below"))
        if "{per}" in slots:
            choices["per"] = rng.pick(("day", "month", "year"))
        if "{unit}" in slots:
            choices["unit"] = rng.pick(("hours", "days"))
        return choices

    def _window(self, template: Template, time: str) -> list[str]:
        """A window that contains a time."""
        form = self._rng.pick(template.windows)
        if form in ("ever", "current"):
            return ["stay", "current"] if form == "current" else default_window(template)
        if form in ("stay", "icu"):
            return [form, self._rng.pick(("first", "last"))]
        return [form, time[: {"month": 7, "year": 4, "since": 10}[form]]]


def _order(place: str) -> int:
    return PLACES[place] if PLACES[place] >= 0 else 100 + PLACES[place]


def _is_plain(template: Template, lookup: Lookup, chosen: Sequence[Mapping[str, Any]], values: Sequence[Any]) -> bool:
    """Whether the entries allow only one answer."""
    if template.is_single or template.is_paired:
        places = [PLACES[lookup[name]] for name in ("exact", "other") if name in lookup] or [PLACES["last"]]
        picked = [chosen[place] for place in places]
        times = [entry["time"] for entry in chosen]
        if len({entry["time"] for entry in picked}) < len(picked) or any(
            times.count(entry["time"]) > 1 for entry in picked
        ):
            return False
        if template.is_paired and picked[0]["value"] == picked[1]["value"]:
            return False
        if template.field in ("end", "days") and not picked[0]["days"]:
            return False
    if template.op == "per" and not _PERIODS[0] <= len(values) <= _PERIODS[1]:
        return False
    return bool(values) and (template.op not in _MEASURED or len(set(_units(chosen))) <= 1)


def _units(chosen: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    return (entry["unit"] for entry in chosen if "unit" in entry)
