"""The progress of a run: a live panel in a terminal, a line every few seconds elsewhere.

It is printed to standard error, so that standard output contains only results. `Progress` counts, the displays print.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from medagent.core.number_formats import counted, dollars, duration, natural, short_key
from medagent.core.scrub import printable
from medagent.engine.rows import Row, Spent
from medagent.engine.scores import Scored
from medagent.models.limiter import EndpointStats
from medagent.models.markup import leak_notes

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

LINE_EVERY_S = 5.0
CELL_EVERY_S = 0.5
CHECK_EVERY_S = 5.0
STALLED_AFTER_S = 60.0
WITHOUT_TOOLS_AFTER = 10
"""The number of ended units after which a run with tools says that no reply contains a call."""
WITHOUT_TOOLS = (
    "No reply contains a tool call: the endpoint may not support tools (chat template, parser). Check it: medagent "
    "doctor --model NAME; without tools: --protocol text"
)
SLOW_SERVER = "If the server is slow: --concurrency 1, a lower --max-tokens N, or a longer --timeout SECONDS."
_KINDS = 5
"""The most kinds of left-out parts that a note lists."""
SEPARATOR = " · "


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    return "ipykernel" in sys.modules


@dataclass(slots=True)
class GroupCount:
    """Counts of one group of units."""

    done: int = 0
    graded: int = 0
    right: int = 0


@dataclass(slots=True)
class State:
    """The values that a display shows."""

    total: int = 0
    finished: int = 0
    done: int = 0
    failed: int = 0
    groups: dict[str, GroupCount] = field(default_factory=dict)
    spent: Spent = field(default_factory=Spent)
    slowest: tuple[float, str] = (0.0, "")
    started: float = field(default_factory=time.monotonic)
    endpoints: Sequence[EndpointStats] = ()
    awaited: str = ""
    """What the run waits for before it starts."""

    @property
    def rate(self) -> float:
        """Units per second in this process."""
        return self.done / max(time.monotonic() - self.started, 1e-6)

    def figures(self) -> list[str]:
        """Finished units, share of right ones, tokens, cost, rate, time left, retries and waits, slowest unit."""
        graded = sum(t.graded for t in self.groups.values())
        right = sum(t.right for t in self.groups.values())
        parts = [f"{self.finished + self.done}/{self.total}", *([self.awaited] if self.awaited else [])]
        if graded:
            parts.append(f"right {right / graded:.0%}")
        if self.failed:
            parts.append(f"failed {self.failed}")
        if self.spent.calls:
            parts += [self.spent.tokens_text, dollars(self.spent.cost)]
        parts.append(f"{self.rate:.1f}/s")
        if self.done:
            parts.append(f"{duration((self.total - self.finished - self.done) / self.rate)} left")
        retries = sum(e.retries for e in self.endpoints)
        if retries:
            parts.append(f"{retries} retries, {duration(sum(e.waited_s for e in self.endpoints))} waited")
        if self.slowest[0] >= 1:
            parts.append(f"slowest {short_key(self.slowest[1])} {self.slowest[0]:.1f} s")
        return [printable(part) for part in parts]

    def rates(self) -> list[str]:
        """The share of right units in each group so far; `task2` is before `task10`."""
        return [
            f"{printable(name)} {tally.right / tally.graded:.0%} of {tally.graded}"
            for name, tally in sorted(self.groups.items(), key=lambda group: natural(group[0]))
            if tally.graded
        ]


class Display:
    """Shows a state. This one shows nothing."""

    def start(self, state: State) -> None:
        """The run starts."""

    def update(self, state: State) -> None:
        """Something changed."""

    def line(self, text: str) -> None:
        """A line that must be seen now."""

    def stop(self, state: State) -> None:
        """The run ends."""


heard: ContextVar[Callable[[Row, Scored | None], None] | None] = ContextVar("medagent_heard", default=None)
"""A function that is called with each unit when its row is on disk and scored, for programs that report progress."""


class Progress:
    """Counts rows and shows them."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._state = State()
        self._notes: list[str] = []
        self._display = Display() if quiet else _fitting()
        self._ended = time.monotonic()
        """When the last unit ended, or the last line about a stall was shown."""

    @property
    def notes(self) -> list[str]:
        """One line per note: adaptations to the endpoints, what is strange about their replies, events of workers."""
        endpoints = self._state.endpoints
        learnt = (note for endpoint in endpoints for note in endpoint.notes)
        left_out = sum((endpoint.left_out for endpoint in endpoints), Counter[str]())
        leaks = sum((endpoint.leaks for endpoint in endpoints), Counter[str]())
        strange = leak_notes(leaks, sum(endpoint.replies for endpoint in endpoints))
        return list(dict.fromkeys([*learnt, *_left_out(left_out), *strange, *self._without_tools(), *self._notes]))

    @property
    def stated(self) -> dict[str, Any]:
        """What the servers state of themselves; the first one that says something."""
        return next((endpoint.stated for endpoint in self._state.endpoints if endpoint.stated), {})

    def _without_tools(self) -> Iterator[str]:
        """A line if no reply of the run contains a tool call, although tools were offered."""
        endpoints = self._state.endpoints
        if any(endpoint.offered for endpoint in endpoints) and not any(endpoint.called for endpoint in endpoints):
            yield WITHOUT_TOOLS

    async def watch_stalls(self) -> None:
        """Show a line for each minute in which nothing ends, until it is cancelled."""
        while True:
            await asyncio.sleep(CHECK_EVERY_S)
            if time.monotonic() - self._ended >= STALLED_AFTER_S:
                self._ended = time.monotonic()
                self._display.line(self._stall())

    def _stall(self) -> str:
        """What a run waits for in which nothing ended for a minute, and what to do."""
        endpoints = self._state.endpoints
        waiting, retries = (
            sum(endpoint.in_flight for endpoint in endpoints),
            sum(endpoint.retries for endpoint in endpoints),
        )
        failure = next((endpoint.last_failure for endpoint in endpoints if endpoint.last_failure), "")
        parts = [
            f"nothing has ended for {duration(STALLED_AFTER_S)}",
            *([f"awaited: {counted(waiting, 'replies')}"] if waiting else []),
            *([f"{counted(retries, 'retries')}, last: {failure}"] if retries else []),
        ]
        return f"{'; '.join(parts)}. {SLOW_SERVER}"

    def note(self, text: str) -> None:
        """Add a line to the notes that are printed at the end."""
        self._notes.append(text)

    def begin(self, total: int, finished: int) -> None:
        """Start with `total` units, `finished` of them already done."""
        self._state.total, self._state.finished = total, finished
        self._display.start(self._state)

    def wait(self, text: str) -> None:
        """Show what the run waits for before it starts; an empty text shows nothing."""
        self._state.awaited = text
        self._display.update(self._state)

    def watch(self, endpoints: Sequence[EndpointStats]) -> None:
        """Show the statistics of these endpoints, and their warnings."""
        self._state.endpoints = list({id(endpoint): endpoint for endpoint in endpoints}.values())
        for endpoint in self._state.endpoints:
            endpoint.listener = self._display.line

    def add(self, row: Row, spent: Spent, scored: Scored | None = None) -> None:
        """Count a finished unit. `spent` is the sum of the whole run, `scored` is the unit's score if there is one."""
        state = self._state
        tally = state.groups.setdefault(scored.item.group if scored else "", GroupCount())
        tally.done += 1
        tally.graded += scored is not None and scored.correct is not None
        tally.right += scored is not None and scored.correct is True
        state.done += 1
        self._ended = time.monotonic()
        if state.done == WITHOUT_TOOLS_AFTER:
            for text in self._without_tools():
                self._display.line(text)
        state.failed += row.owed and row.status != "cancelled"
        state.spent = spent
        state.slowest = max(state.slowest, (row.seconds, row.unit))
        self._display.update(state)
        if (hear := heard.get()) is not None:
            hear(row, scored)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._display.stop(self._state)


def _left_out(parts: Counter[str]) -> Iterator[str]:
    """A line about the parts of replies that are neither text nor reasoning."""
    if parts:
        kinds = ", ".join(f"{count} {kind}" for kind, count in parts.most_common(_KINDS))
        more = ", …" if len(parts) > _KINDS else ""
        yield f"Left out of replies, as neither text nor reasoning: {counted(parts.total(), 'parts')} ({kinds}{more})"


def _fitting() -> Display:
    """The display for a notebook, a terminal, or a file."""
    if in_notebook():
        return _Cell()
    return _Panel() if sys.stderr.isatty() else _Lines()


class _Lines(Display):
    """A plain line every few seconds and one at the end."""

    def __init__(self) -> None:
        self._last = 0.0

    def start(self, state: State) -> None:
        self._last = time.monotonic()
        earlier = f", {state.finished} already done" if state.finished else ""
        print(f"{counted(state.total, 'units')}{earlier}", file=sys.stderr, flush=True)

    def update(self, state: State) -> None:
        if time.monotonic() - self._last >= LINE_EVERY_S:
            self._last = time.monotonic()
            self._print(state)

    def stop(self, state: State) -> None:
        if state.done:
            self._print(state)

    def line(self, text: str) -> None:
        print(printable(text), file=sys.stderr, flush=True)

    def _print(self, state: State) -> None:
        print(SEPARATOR.join(state.figures()), file=sys.stderr, flush=True)


class _Cell(Display):
    """A changing line below a notebook's cell."""

    def __init__(self) -> None:
        self._last = 0.0
        self._handle: Any = None

    def start(self, state: State) -> None:
        display = import_module("IPython.display").display  # it comes with every kernel
        self._handle = display(self._content(state), raw=True, display_id=True)

    def update(self, state: State) -> None:
        if time.monotonic() - self._last >= CELL_EVERY_S:
            self.stop(state)

    def stop(self, state: State) -> None:
        self._last = time.monotonic()
        if self._handle is not None:
            self._handle.update(self._content(state), raw=True)

    def _content(self, state: State) -> dict[str, str]:
        return {"text/plain": SEPARATOR.join(state.figures())}


class _Panel(Display):
    """A bar, with the scores and the success rate of each group below it. rich refreshes it eight times a second."""

    def __init__(self) -> None:
        self._live: Live | None = None

    def start(self, state: State) -> None:
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True)
        self._live = Live(console=console, refresh_per_second=8, get_renderable=partial(_draw, state, console))
        self._live.start()

    def stop(self, state: State) -> None:
        if self._live is not None:
            self._live.stop()

    def line(self, text: str) -> None:
        if self._live is not None:
            self._live.console.print(printable(text), markup=False, highlight=False)


def _draw(state: State, console: Console) -> RenderableType:
    from rich.console import Group
    from rich.padding import Padding
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    bar = ProgressBar(total=max(state.total, 1), completed=state.finished + state.done, width=60)
    return Group(
        Padding(bar, 0),  # ends the line, which a bar alone does not
        Text(fold(state.figures(), SEPARATOR, console.width)),
        Text(fold(state.rates(), "  ", console.width), style="dim"),
    )


def fold(parts: Sequence[str], separator: str, width: int) -> str:
    """The parts in lines of at most `width` characters, with line breaks only between parts."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(separator) + len(part) <= width:
            lines[-1] += separator + part
        else:
            lines.append(part)
    return "\n".join(lines)
