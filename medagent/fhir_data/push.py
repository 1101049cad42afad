"""Loads FHIR data into any FHIR server by transactions of PUTs, so that ids do not change.

A server checks references when it stores a resource. Therefore targets are loaded before the references to them, and
each reference cycle is one transaction. HAPI refuses ids that consist of digits only (HAPI-0960); these get the prefix
x, and so do references to them. The number of loaded Bundles is stored in the cache folder, under the data's digest and
the server's address.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from fhir_server.synthetic.bundled import hospital
from fhir_server.wire.json_text import compact, decode, render
from fhir_server.wire.json_values import JsonTextError
from medagent.core.errors import FhirUnavailableError, StopRunError, UserError
from medagent.core.paths import cache_dir
from medagent.core.tell import Tell
from medagent.core.writing import write_whole
from medagent.fhir_data.files import ResourceLine, is_sqlite, read_resources, rewrite_references
from medagent.fhir_data.http import HttpEhr
from medagent.fhir_data.record import FhirRequest, diagnostics
from medagent.fhir_data.store import stored_lines

BUNDLE_SIZE = 500
BUNDLE_BYTES = 10_000_000
"""The most resources and bytes of one transaction, except for reference cycles, which cannot be split."""
PREFIX = "x"
HAPI_RATE = 500
"""Resources per second that HAPI 7.6 stored on two cores."""


class _State:
    """The number of Bundles that a server has stored, in a file of the cache folder."""

    def __init__(self, digest: str, url: str) -> None:
        address = hashlib.sha256(url.encode()).hexdigest()
        self.path = cache_dir() / "push" / f"{digest[:16]}-{address[:16]}"
        try:
            self.bundles = int(self.path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            self.bundles = 0

    def keep(self, bundles: int) -> None:
        """Write the number to disk."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{self.path.parent}: cannot be created: {error.strerror}") from None
        write_whole(self.path, str(bundles))

    def clear(self) -> None:
        """Remove the file: all Bundles are stored."""
        self.path.unlink(missing_ok=True)


class _Resources:
    """The data on disk in the order of the source, with their references. Use it as a context manager."""

    def __init__(self, source: Iterator[ResourceLine], spool: IO[bytes]) -> None:
        """Raises UserError for a line that is not a resource with an id, and for a duplicate id."""
        self._spool = spool
        self._offsets = [0]
        self._numbers: dict[str, int] = {}
        self.renamed: dict[str, str] = {}
        references: list[list[str]] = []
        digest = hashlib.sha256()
        for read in source:
            line = self._named(read).encode()
            digest.update(line)
            spool.write(line)
            self._offsets.append(self._offsets[-1] + len(line))
            references.append(read.references)
        self.digest = digest.hexdigest()
        self._edges = [
            [self._numbers[reference] for reference in names if reference in self._numbers] for names in references
        ]
        self._targets = [self.renamed.get(name, name) for name in self._numbers]
        if len(set(self._targets)) < len(self._targets):
            raise UserError(f"an id of digits only, prefixed with {PREFIX}, is another resource's id")

    def __len__(self) -> int:
        return len(self._targets)

    def _named(self, read: ResourceLine) -> str:
        try:
            resource = decode(read.line)
            digits_only = resource["id"].isdecimal()
            name = f"{resource['resourceType']}/{resource['id']}"
        except (JsonTextError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{read.place}: is not a resource with an id ({error})") from None
        if name in self._numbers:
            raise UserError(f"{read.place}: duplicate resource {name}")
        self._numbers[name] = len(self._numbers)
        if not digits_only:
            return read.line
        resource["id"] = PREFIX + resource["id"]
        self.renamed[name] = f"{resource['resourceType']}/{resource['id']}"
        return compact(render(resource))

    def bundles(self) -> list[list[int]]:
        """The numbers of the resources of each Bundle, targets before the references to them."""
        bundles: list[list[int]] = [[]]
        filled = 0
        for component in components(self._edges):
            size = sum(self._offsets[number + 1] - self._offsets[number] for number in component)
            full = len(bundles[-1]) + len(component) > BUNDLE_SIZE or filled + size > BUNDLE_BYTES
            if full and bundles[-1]:
                bundles.append([])
                filled = 0
            bundles[-1] += component
            filled += size
        return bundles

    def transaction(self, numbers: Sequence[int]) -> str:
        """A transaction Bundle that PUTs these resources."""
        entries = ",".join(
            f'{{"resource":{self._line(number)},"request":{{"method":"PUT","url":{render(self._targets[number])}}}}}'
            for number in numbers
        )
        return f'{{"resourceType":"Bundle","type":"transaction","entry":[{entries}]}}'

    def target(self, number: int) -> str:
        """The type and id of a resource on the server."""
        return self._targets[number]

    def _line(self, number: int) -> str:
        self._spool.seek(self._offsets[number])
        line = self._spool.read(self._offsets[number + 1] - self._offsets[number]).decode()
        return rewrite_references(line, self.renamed) if self.renamed else line


def push(server: HttpEhr, data: Path | None, report: Tell, say: Callable[[str], None]) -> str:
    """Load the bundled hospital (None) or a file into the server; returns a summary.

    `report` gets the number of resources done and the total, `say` all other messages for the user.
    Raises UserError if the data cannot be read, or if the server refuses or fails; then the same call continues.
    """
    with tempfile.TemporaryFile() as spool:
        resources = _Resources(_source(data), spool)
        if not len(resources):
            raise UserError(f"{data}: contains no resource")
        if resources.renamed:
            say(f"{len(resources.renamed)} ids of digits only get the prefix {PREFIX}, and so do references to them")
        state = _State(resources.digest, server.url)
        try:
            asyncio.run(_push(server, resources, state, report, say))
        except (FhirUnavailableError, StopRunError) as error:
            raise UserError(f"{error}; repeat the command to continue") from None
        return f"{server.url}: {len(resources)} resources loaded"


async def _push(
    server: HttpEhr,
    resources: _Resources,
    state: _State,
    report: Tell,
    say: Callable[[str], None],
) -> None:
    bundles = resources.bundles()
    async with server:
        await server.check()
        start = state.bundles if state.bundles <= len(bundles) else 0
        # A server that was set up again has lost its data: in that case the stored number is ignored.
        if start and not (await server.send(FhirRequest("GET", f"/{resources.target(bundles[start - 1][-1])}"))).ok:
            start = 0
        done = sum(map(len, bundles[:start]))
        if start:
            say(f"{done} resources are already loaded; continuing")
        seconds = (len(resources) - done) / HAPI_RATE
        say(
            f"HAPI 7.6 takes about {HAPI_RATE} resources a second: {seconds:,.0f} s; progress is stored in {state.path}"
        )
        for number, bundle in enumerate(bundles[start:], start + 1):
            reply = await server.send(FhirRequest("POST", body=resources.transaction(bundle)))
            if not reply.ok:
                raise UserError(
                    f"{server.url}: refuses the resources from {resources.target(bundle[0])} to "
                    f"{resources.target(bundle[-1])} ({reply.status}: {diagnostics(reply)}); {done} are loaded"
                )
            done += len(bundle)
            state.keep(number)
            report(done, len(resources))
    state.clear()


def _source(data: Path | None) -> Iterator[ResourceLine]:
    if data is None:
        lines = hospital()
    elif is_sqlite(data):
        lines = stored_lines(data)
    else:
        return read_resources([data])
    name = data or "the bundled hospital"
    return (ResourceLine(line.rstrip("\n"), f"{name}, resource {number}") for number, line in enumerate(lines, 1))


def components(edges: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """The strongly connected components of a graph, each after all components that it has edges to.

    `edges[n]` are the nodes that node n refers to. Nodes of a reference cycle are one component; each other node is its
    own component, in the original order if the edges allow it. Source: Tarjan, Depth-first search and linear graph
    algorithms, SIAM J. Comput. 1 (1972), here without recursion.
    """
    visited = [0] * len(edges)
    lowest = [0] * len(edges)
    waiting: list[int] = []
    is_waiting = [False] * len(edges)
    clock = 0
    for root in range(len(edges)):
        path = [] if visited[root] else [(root, iter(edges[root]))]
        while path:
            node, left = path[-1]
            if not visited[node]:
                clock += 1
                visited[node] = lowest[node] = clock
                waiting.append(node)
                is_waiting[node] = True
            for neighbour in left:
                if not visited[neighbour]:
                    path.append((neighbour, iter(edges[neighbour])))
                    break
                if is_waiting[neighbour]:
                    lowest[node] = min(lowest[node], visited[neighbour])
            else:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[node])
                if lowest[node] == visited[node]:
                    group = waiting[waiting.index(node) :] if waiting[-1] != node else [node]
                    del waiting[-len(group) :]
                    for member in group:
                        is_waiting[member] = False
                    yield sorted(group)
