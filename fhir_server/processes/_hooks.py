"""Sends the notifications of Subscriptions by rest-hook, in the background.

Written versions are matched with the criteria of Subscriptions after the commit. Notifications wait in memory, in one
queue per Subscription, in the order of the writes. A failed delivery is repeated a few times and then dropped, with a
line on stderr. Nothing is sent to a host that `--allow-hook` does not name: redirects are not followed, and proxies are
not used. The requests are as in HAPI FHIR 7.6.0: `PUT endpoint/Type/id` with the resource, or `POST endpoint` for a
Subscription without a payload.
"""

from __future__ import annotations

import asyncio
import http.client
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

from fhir_server.errors import FhirError
from fhir_server.interactions.subscriptions import Hook, allowed, hooks, matching_versions
from fhir_server.processes.http import say
from fhir_server.server import Server
from fhir_server.store import Version
from fhir_server.wire.http import Request, Response, escape
from fhir_server.wire.json_text import compact, decode
from fhir_server.wire.xml import to_xml

PAUSES = (1.0, 4.0, 16.0)
"""Seconds before the second and each later attempt."""
TIMEOUT = 10.0
"""Seconds for connecting, and for each read of the response."""
WAITING = 10_000
"""The maximum number of waiting notifications of one Subscription. Further ones are not sent."""
AT_ONCE = 8
"""The maximum number of deliveries at the same time."""
_OURS = frozenset(("host", "content-length", "transfer-encoding", "connection", "content-type"))
"""Headers that a Subscription cannot set."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A notification: its HTTP request, and the version that it is about."""

    hook: Hook
    about: str
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    def send(self) -> None:
        """Sends the notification once.

        Raises:
            OSError: the host cannot be reached.
            HTTPException: the response is not HTTP, or its status is not 2xx.
            ValueError: a header of the Subscription is invalid.
        """
        parts = self.hook.address
        assert parts.hostname is not None
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname, parts.port, timeout=TIMEOUT)
        try:
            connection.request(self.method, self.target, self.body, self.headers)
            status = connection.getresponse().status
        finally:
            connection.close()
        if not 200 <= status < 300:
            raise http.client.HTTPException(f"answered {status}")


def delivery(hook: Hook, row: Version) -> Delivery:
    """The notification of a Subscription about a version."""
    assert row.text is not None
    about = f"{row.reference}/_history/{row.version}"
    headers = {name.strip(): value.strip() for name, _, value in (header.partition(":") for header in hook.headers)}
    headers = {name: value for name, value in headers.items() if name.lower() not in _OURS}
    parts = hook.address
    query = f"?{parts.query}" if parts.query else ""
    if not hook.payload:
        return Delivery(hook, about, "POST", (parts.path or "/") + query, headers, b"")
    kind = "xml" if "xml" in hook.payload else "json"
    text = to_xml(decode(row.text), pretty=False) if kind == "xml" else compact(row.text)
    accept = f"application/fhir+{kind};q=1.0, application/{kind}+fhir;q=0.9"
    headers |= {"Content-Type": f"application/fhir+{kind}; charset=UTF-8", "Accept": accept}
    headers["If-Match"] = f'"{row.version}"'
    target = f"{parts.path.rstrip('/')}/{row.type}/{escape(row.id)}{query}"
    return Delivery(hook, about, "PUT", target, headers, text.encode())


class Courier:
    """Notifies Subscriptions of the writes of a server. For one event loop."""

    def __init__(self, server: Server, pauses: Sequence[float] = PAUSES) -> None:
        self._server = server
        self._pauses = pauses
        self._hooks: list[Hook] | None = None
        self._queues: dict[str, deque[Delivery]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(AT_ONCE, "hook")

    def handle(self, request: Request) -> Response:
        """Answers one request, and queues notifications of its writes."""
        response = self._server.handle(request)
        self.notify(self._server.store.take_changes())
        return response

    def notify(self, changes: Sequence[Version]) -> None:
        """Queues notifications of written versions, from this or another process of the server."""
        if not changes:
            return
        self._server.store.refresh()
        if any(row.type == "Subscription" for row in changes):
            self._hooks = None
        if self._hooks is None:
            self._hooks = [hook for hook in hooks(self._server.context) if allowed(self._server.context, hook.endpoint)]
        rows = list({row.row_id: row for row in changes if row.text is not None}.values())
        for hook in self._hooks:
            try:
                for row in matching_versions(self._server.context, hook, rows):
                    self._add(delivery(hook, row))
            except FhirError as error:  # such as a search parameter that was deleted
                line = f"Subscription/{hook.id} is sent nothing: {hook.criteria!r}: {error.diagnostics}"
                say(line)

    def _add(self, delivery: Delivery) -> None:
        queue = self._queues.get(delivery.hook.id)
        if queue is not None and len(queue) >= WAITING:
            _say(delivery, f"not sent: {WAITING} notifications are waiting")
            return
        if queue is None:
            queue = self._queues[delivery.hook.id] = deque()
            task = asyncio.get_running_loop().create_task(self._work(delivery.hook.id, queue))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        queue.append(delivery)

    async def _work(self, hook_id: str, queue: deque[Delivery]) -> None:
        """Sends the queue of one Subscription in order. Ends when the queue is empty."""
        while queue:
            await self._deliver(queue[0])
            queue.popleft()
        del self._queues[hook_id]

    async def _deliver(self, delivery: Delivery) -> None:
        loop = asyncio.get_running_loop()
        for pause in (*self._pauses, None):
            try:
                await loop.run_in_executor(self._threads, delivery.send)
                return
            except (OSError, http.client.HTTPException, ValueError) as error:
                problem = str(error) or type(error).__name__
            if pause is not None:
                await asyncio.sleep(pause)
        _say(delivery, f"given up after {len(self._pauses) + 1} attempts: {problem}")

    async def __aenter__(self) -> Self:
        for hook in hooks(self._server.context):
            if not allowed(self._server.context, hook.endpoint):
                line = f"Subscription/{hook.id} is sent nothing: start the server with --allow-hook and the host of"
                say(f"{line} {hook.endpoint!r}")
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)


def _say(delivery: Delivery, problem: str) -> None:
    say(f"Subscription/{delivery.hook.id}: {delivery.about} to {delivery.hook.endpoint!r} {problem}")
