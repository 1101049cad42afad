"""Triples of twins (`medagent data twins --triples`): agents with a memory for earlier items cannot guess them."""

from __future__ import annotations

import hashlib
import json
import os
from abc import abstractmethod
from collections import Counter
from collections.abc import AsyncIterator
from math import ceil
from pathlib import Path
from random import Random
from typing import Any, ClassVar, NamedTuple

import pytest

from medagent.agents.base import Agent
from medagent.benchmarks.clinical.twins import twins_of
from medagent.benchmarks.medagentbench.tasks.dataset import dataset_folder
from medagent.benchmarks.psb300.tasks import folder_of
from medagent.rl import pair_reward
from refsol.clinical.pairs import Pair
from tests.command import medagent
from tests.medagent.benchmarks.test_twins import Twins, few_of_bundled, made, rates, shared

HEADLINE, ALL_THREE = "right on all three, and the data read", "right on all three"


class Task(NamedTuple):
    """A task as `twins_of` needs it."""

    id: str
    type: str = "dose"
    amendment: tuple[Any, ...] = ()


@pytest.fixture(scope="session")
def few(tmp_path_factory: pytest.TempPathFactory) -> Twins:
    """The triples of two tasks of each type of MedAgentBench."""
    return shared(tmp_path_factory, "few-triples", few_of_bundled, "--triples")


def won_by_a_fixed_order(report: dict[str, Any], triples: Twins) -> dict[str, list[int]]:
    """By type, how many triples an agent wins that remembers a text: for each order of "nothing" and "the due order",
    in which it replies without reading. A right run says where nothing is due.
    """
    rows = [json.loads(line) for line in (Path(report["folder"]) / "episodes.jsonl").read_text().splitlines()]
    acts = {row["task_id"]: any(turn["content"].startswith("POST") for turn in row["transcript"]) for row in rows}
    orders: dict[str, list[bool]] = {}
    for task in triples.tasks:
        orders.setdefault(task["twin"], []).append(acts[task["id"]])
    won: dict[str, Counter[tuple[bool, ...]]] = {}
    for name, order in orders.items():
        won.setdefault(name.partition("_")[0], Counter())[tuple(order)] += 1
    return {kind: [count for order, count in orders.items() if len(set(order)) == 2] for kind, orders in won.items()}


def check_all(triples: Twins) -> dict[str, Any]:
    """The reference agent wins all, and no fixed order of replies wins more than a sixth of a type, rounded up."""
    report = triples.run("reference")
    count = len(triples.tasks) // 3
    assert rates(report)[HEADLINE] == rates(report)[ALL_THREE] == (count, count)
    assert rates(report)["single items"] == (3 * count, 3 * count)
    sizes = Counter(task["twin"].partition("_")[0] for task in triples.tasks)
    for kind, won in won_by_a_fixed_order(report, triples).items():
        assert all(number <= ceil(sizes[kind] // 3 / 6) for number in won), (kind, won)
    return report


class Guess(Agent):
    """Knows both right replies of each triple, and chooses without looking at its chart. `KNOWN` is the file of
    `known_replies`.
    """

    reads: ClassVar[bool] = False
    """Whether it sends the searches of the reference agent before."""

    async def play(self, task: Any, prompt: str) -> AsyncIterator[str]:
        known = _known(task.id)
        for message in (*(known["searches"] if self.reads else ()), *self.reply(task, known)):
            yield message

    @abstractmethod
    def reply(self, task: Any, known: dict[str, Any]) -> list[str]:
        """The messages after the searches."""


def _known(item: str) -> Any:
    return json.loads(Path(os.environ["KNOWN"]).read_text("utf-8"))[item]


_COIN = Random(1)
_SEEN: set[str] = set()
_NOTHING = ["FINISH([])"]


class Coin(Guess):
    """Flips a coin."""

    def reply(self, task: Any, known: dict[str, Any]) -> list[str]:
        """See `Guess`."""
        replies: list[list[str]] = known["replies"]
        return _COIN.choice(replies)


class Hash(Guess):
    """Decides by the id of the item."""

    def reply(self, task: Any, known: dict[str, Any]) -> list[str]:
        """See `Guess`."""
        replies: list[list[str]] = known["replies"]
        return replies[hashlib.sha256(task.id.encode()).digest()[0] % 2]


class Memory(Guess):
    """Remembers each triple: does nothing the first time, and then sends the order that is due on one of its charts."""

    def reply(self, task: Any, known: dict[str, Any]) -> list[str]:
        """See `Guess`."""
        is_known = known["triple"] in _SEEN
        _SEEN.add(known["triple"])
        replies: list[list[str]] = known["replies"]
        return next((reply for reply in replies if _acts(reply) is is_known), _NOTHING)


class ReadingMemory(Memory):
    """The same; it reads all that decides, and does not use it."""

    reads = True


def _acts(messages: list[str]) -> bool:
    return any(message.startswith("POST") for message in messages)


def known_replies(report: dict[str, Any], triples: Twins) -> dict[str, Any]:
    """By item, its triple, the two right replies of it, and the searches of the reference agent."""
    rows = [json.loads(line) for line in (Path(report["folder"]) / "episodes.jsonl").read_text("utf-8").splitlines()]
    names = {task["id"]: task["twin"] for task in triples.tasks}
    replies: dict[str, list[list[str]]] = {}
    searches: dict[str, list[str]] = {}
    for row in rows:
        messages = [turn["content"] for turn in row["transcript"] if turn["role"] == "agent"]
        reply = [message for message in messages if not message.startswith("GET")]
        known = replies.setdefault(names[row["task_id"]], [])
        if reply not in known:
            known.append(reply)
        searches[row["task_id"]] = [message for message in messages if message.startswith("GET")]
    assert {len(both) for both in replies.values()} == {2}
    return {
        item: {"triple": name, "replies": replies[name], "searches": searches[item]} for item, name in names.items()
    }


def check_guesses(report: dict[str, Any], triples: Twins, file: Path) -> None:
    """Agents that do not read win no triple in the headline; one that reads, and goes by its memory, at most a sixth of
    each type.
    """
    file.write_text(json.dumps(known_replies(report, triples)), "utf-8")
    count = len(triples.tasks) // 3
    sizes = Counter(task["twin"].partition("_")[0] for task in triples.tasks)
    for agent in (Coin, Hash, Memory, ReadingMemory):
        _SEEN.clear()
        guessed = triples.run(f"{__name__}:{agent.__name__}", "--concurrency", 1)
        if not agent.reads:
            assert rates(guessed)[HEADLINE] == (0, count), agent
        if issubclass(agent, Memory):
            right = Counter(item["pair"] for item in guessed["items"] if item["correct"])
            won = Counter(name.partition("_")[0] for name, number in right.items() if number == 3)
            assert all(won[kind] <= ceil(size // 3 / 6) for kind, size in sizes.items()), (agent, won)


def test_who_guesses_wins_no_triple_and_a_memory_a_sixth(
    few: Twins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KNOWN", str(tmp_path / "known.json"))
    check_guesses(few.run("reference"), few, tmp_path / "known.json")


def test_the_reference_agent_gets_all_triples_and_a_fixed_order_a_sixth(few: Twins) -> None:
    report = check_all(few)
    count = len(few.tasks) // 3
    assert few.told.splitlines()[-2].endswith(f": {count} triples, {3 * count} items")
    assert report["twins"]["triples"] == count
    assert f"Triples that are {HEADLINE}: {count} of {count}" in medagent("show", report["folder"]).out
    assert f"Score: triples of twins that are {HEADLINE}." in medagent("grade", report["folder"]).out
    assert f"; twins: {count} triples" in medagent("data", "check", few.folder).out
    nothing = few.run("nop")
    for name in (HEADLINE, ALL_THREE, "baseline nop", "baseline constant", "baseline blind"):
        assert rates(nothing)[name] == (0, count), name
    compared = medagent("compare", report["folder"], nothing["folder"])
    assert f"With {count} triples" in compared.out


def test_one_of_the_charts_occurs_twice(few: Twins) -> None:
    changes: dict[str, list[str]] = {}
    for task in few.tasks:
        changes.setdefault(task["twin"], []).append(json.dumps(task.get("change")))
    assert all(sorted(Counter(twin_changes).values()) == [1, 2] for twin_changes in changes.values())


def test_a_triple_with_a_harmful_item_is_harmful(few: Twins) -> None:
    reports = [few.run("reference", "--limit", 30), few.run("nop", "--limit", 30)]
    lines = (Path(reports[1]["folder"]) / "items.jsonl").read_text("utf-8").splitlines()
    items = [item for item in map(json.loads, lines) if "harmful" in item]
    harmful = {item["pair"] for item in items if item["harmful"]}
    spared = {item["pair"] for item in items if not item["harmful"]}
    assert harmful & spared, "in some triples, an order is due for only one chart"
    folders = [report["folder"] for report in reports]
    compared = json.loads(medagent("compare", *folders, "--json").out)
    assert (compared["harmful"]["first"], compared["harmful"]["second"]) == (0, len(harmful))
    assert (compared["harmful"]["items"], compared["nouns"]) == (len(harmful | spared), "triples")
    line = f"in any item: A 0, B {len(harmful)} of {len(harmful | spared)} triples; B − A: "
    for words in (("compare", *folders), ("compare", *folders, "--markdown")):
        assert line in medagent(*words).out.replace("\n  ", " ")


def test_limits_count_whole_triples(few: Twins) -> None:
    report = few.run("nop", "--limit", 7)
    assert rates(report)[HEADLINE] == (0, 2)


def test_a_triple_without_one_of_its_items_is_refused(few: Twins, tmp_path: Path) -> None:
    lines = [json.dumps(task) for task in few.tasks][1:]
    (tmp_path / "tasks.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "dataset.json").write_bytes((few.folder / "dataset.json").read_bytes())
    (tmp_path / "reads.jsonl").write_bytes((few.folder / "reads.jsonl").read_bytes())
    ran = medagent("data", "check", tmp_path)
    assert ran.code == 1


@pytest.mark.parametrize("count", [1, 5, 6, 13, 44])
@pytest.mark.parametrize("before_is_due", [False, True])
def test_each_order_is_as_frequent_as_the_others(count: int, before_is_due: bool) -> None:
    """Whichever of the two charts is the original one."""

    def options(task: Task) -> list[Pair]:
        is_due = before_is_due if int(task.id) % 2 else not before_is_due
        branches = ("order", "nothing") if is_due else ("nothing", "order")
        return [Pair(["Observation/1"], *branches, (is_due, not is_due))]

    tasks = [Task(str(number)) for number in range(count)]
    made = twins_of(tasks, options, triples=True)
    assert made.size == (count, 3 * count)
    orders: dict[str, list[bool]] = {}
    for item in made.items:
        is_due = options(item.task)[0].due[1 if item.change else 0]
        orders.setdefault(item.twin, []).append(is_due)
    frequency = Counter(map(tuple, orders.values()))
    assert set(frequency.values()) <= {count // 6, -(-count // 6)}
    assert len(frequency) == min(count, 6)
    assert all(len(set(order)) == 2 for order in frequency)


def test_more_and_fewer_readings_occur_equally_often() -> None:
    """A third of the tasks can only get a chart with fewer."""
    fewer = Pair(["Observation/1"], "order", "nothing", more=-1)
    more = Pair(["Observation/2"], "order", "another order", more=1)
    tasks = [Task(str(number)) for number in range(12)]
    made = twins_of(tasks, lambda task: [fewer, more] if int(task.id) % 3 else [fewer])
    changes = Counter(item.change for item in made.items if item.change)
    assert changes == {("Observation/1",): 6, ("Observation/2",): 6}


def test_the_reward_of_a_triple() -> None:
    from medagent import Score

    right = Score(correct=True, grounded=True)
    assert pair_reward(right, right, right) == 1.0
    assert pair_reward(right, right, Score(correct=True, grounded=False)) == 0.0


@pytest.mark.long
@pytest.mark.parametrize("benchmark", ["medagentbench", "psb-300"])
def test_triples_of_whole_sets(benchmark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = {"medagentbench": dataset_folder("synthetic"), "psb-300": folder_of("synthetic")}[benchmark]
    triples = made(tmp_path / "triples", (source, "--triples"), (benchmark,))
    report = check_all(triples)
    count = len(triples.tasks) // 3
    for agent in ("nop", "constant"):
        table = rates(triples.run(agent))
        for name in (HEADLINE, "baseline nop", "baseline constant", "baseline blind"):
            assert table[name] == (0, count), (agent, name)
    monkeypatch.setenv("KNOWN", str(tmp_path / "known.json"))
    check_guesses(report, triples, tmp_path / "known.json")
