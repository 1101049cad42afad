"""Small hospitals, and the decision about an agent that reads them by some GETs before its reply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from medagent.fhir_data.small_world import small_world
from refsol.clinical.chart import Chart
from refsol.clinical.examples import hospital_examples
from refsol.clinical.known import Missed, Surroundings, grounds, missed
from refsol.clinical.meanings import CLINICAL
from refsol.clinical.pairs import Hospital
from refsol.clinical.rulings import Reply, Ruling
from refsol.clinical.sources import Resources
from refsol.clinical.task_type import Solution, TaskType
from refsol.grounds import Grounds
from refsol.reads import Read
from refsol.verdict import Verdict
from tests.refsol.clinical.wards import BASE, NOW, Json, kind_of

PATIENT: Json = {
    "resourceType": "Patient",
    "id": "P1",
    "identifier": [{"value": "M1"}],
    "name": [{"family": "Lee", "given": ["Ann"]}],
    "birthDate": "1963-11-13",
}
OTHER: Json = {"resourceType": "Patient", "id": "P2", "birthDate": "1950-01-01"}


def others(*resources: Json) -> list[Json]:
    """The same resources of another patient, which are the examples of the hospital."""
    return [{**resource, "id": f"{resource['id']}-2", "subject": {"reference": "Patient/P2"}} for resource in resources]


class Case:
    """A rule on a chart, and the right reply."""

    def __init__(self, rule: Callable[[Chart], Ruling], chart: Sequence[Json], hospital: Sequence[Json] = ()) -> None:
        self._kind: TaskType = kind_of(rule)()
        self._data = [PATIENT, OTHER, *chart, *hospital]

    def chart(self) -> Chart:
        return Chart(Resources(self._data), "P1", NOW, CLINICAL, base=BASE)

    @property
    def surroundings(self) -> Surroundings:
        chart = self.chart()
        self._kind.ruled(chart)
        return Surroundings(small_world, hospital_examples([chart], Hospital(self._data)), {"P1": PATIENT})

    def verdict(self, reply: Reply | None = None) -> Verdict:
        chart = self.chart()
        return self._kind.judge(chart, reply or Solution.of(self._kind.ruled(self.chart()), chart).reply)

    def reads(self, *searches: str, pages: int = 100) -> list[Read]:
        """The replies of the whole hospital to some GETs, with up to so many pages of each."""
        replies: list[Read] = []
        with small_world() as world:
            world.put(self._data)
            for search in searches:
                url: str | None = search if "//" in search.partition("?")[0] else BASE + search
                for _ in range(pages):
                    if url is None:
                        break
                    body = world.get(url)
                    if body:
                        replies.append(Read(url, body))
                    url = replies[-1].next_page if body else None
        return replies

    def grounds(self, *searches: str, pages: int = 100, change: Any = None) -> Grounds:
        """The grounds of the right reply of an agent that sent these GETs. `change` changes the recorded replies."""
        reads = self.reads(*searches, pages=pages)
        return grounds(self.verdict(), change(reads) if change else reads, self.surroundings)

    def missed(self, *searches: str, answer: str, pages: int = 100) -> Missed | None:
        """What the agent of this wrong answer had not read."""
        verdict = self.verdict(Reply.with_orders(answer, [], BASE))
        assert verdict.correct is False
        return missed(verdict, self.reads(*searches, pages=pages), self.surroundings)
