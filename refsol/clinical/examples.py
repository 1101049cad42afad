"""Examples of what resources look like in a hospital, chosen among what the rules of a set's tasks read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from refsol.clinical.chart import Chart
from refsol.clinical.neighbours import example_name, examples_of, limits_of
from refsol.clinical.pairs import Hospital
from refsol.clinical.searches import ref
from refsol.clinical.sources import Resource


def learned_examples(charts: Iterable[Chart]) -> dict[str, Sequence[Resource]]:
    """Examples of what the rules of some tasks look for. `charts` have the records of their rules."""
    charts = list(charts)
    resources = {ref(resource): resource for chart in charts for resource in chart.touched.values()}
    return hospital_examples(charts, Hospital(list(resources.values())))


def hospital_examples(charts: Iterable[Chart], hospital: Hospital) -> dict[str, Sequence[Resource]]:
    """Examples of what the rules of some tasks look for, among all resources of a hospital."""
    charts = list(charts)
    examples, limits = dict[str, Sequence[Resource]](), limits_of(charts)
    for chart in charts:
        for searched in chart.searched:
            name = example_name(searched)
            if searched.search.kind == "Patient" or name in examples:
                continue
            kind = hospital.kinds.get(searched.search.kind, [])
            if resources := examples_of(searched, chart, hospital.alike(searched), kind, limits[name]):
                examples[name] = resources
    return examples
