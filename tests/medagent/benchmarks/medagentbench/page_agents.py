"""Reference agents that differ in how they read a search: one page of it, all pages, or sorted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from medagent.agents.base import AgentContext
from medagent.benchmarks.medagentbench.agents.reference import solver
from medagent.fhir_episodes.rule_agent import RuleAgent
from refsol.clinical.sources import Resource


class FirstPage:
    """Reads the first page of each search."""

    sort = False
    pages = False

    def __init__(self, base: str, get: Callable[[str], Any]) -> None:
        self._base, self._get = base.rstrip("/"), get

    def search(self, kind: str, **query: str) -> Sequence[Resource]:
        """The resources that it sees."""
        if self.sort and kind == "Observation":
            query["_sort"] = "-date"
        parts = "&".join(f"{name}={value}" for name, value in query.items() if value)
        url: str | None = f"{self._base}/{kind}?{parts}"
        resources: list[Resource] = []
        while url:
            bundle = self._get(url)
            resources += [entry["resource"] for entry in bundle.get("entry", [])]
            links = {link["relation"]: link["url"] for link in bundle["link"]}
            url = links.get("next") if self.pages else None
        return resources


class EveryPage(FirstPage):
    """Opens all pages."""

    pages = True


class Sorted(FirstPage):
    """Reads the first page of readings, newest first."""

    sort = True


class OnePage(RuleAgent):
    """Answers from the first page of each search."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context, solver(context.base, FirstPage))


class Paging(RuleAgent):
    """Opens all pages."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context, solver(context.base, EveryPage))


class Sorting(RuleAgent):
    """Reads the first page, newest first."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context, solver(context.base, Sorted))
