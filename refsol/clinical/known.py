"""Whether a right reply was *known* to be right.

It was if, on every neighbouring chart on which it would be wrong, at least one of the agent's reads before its first
write shows the difference.

Pure and offline. A `World` replays the reads: a FHIR server that contains only what the rule and the recorded replies
show, and what one neighbouring chart has more. So nothing depends on where the chart came from.

A reply shows a difference in three ways. It contains a changed resource with an element that changes. It would contain
a resource that it does not contain, or the other way round. Or it would be empty, and is not, or the other way round.
Totals (except 0), the order, and what an unsorted search with an unread page happens to show first prove nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple, Protocol, cast
from urllib.parse import parse_qsl, urlencode, urlsplit

from refsol.clinical.neighbours import (
    ANOTHER_CODE,
    ANOTHER_PATIENT,
    LONG_AGO,
    Evidence,
    Examples,
    Neighbour,
    added_charts,
    changed_charts,
    example_for,
    example_name,
    is_about,
)
from refsol.clinical.searches import Searched, ref
from refsol.clinical.sources import PAGE, Resource, Source
from refsol.clinical.task_type import Ruled
from refsol.clinical.twins import Changed, signature
from refsol.errors import FactsError
from refsol.grounds import NO_READING, NOT_GRADED, UNKNOWN, Grounds
from refsol.json_values import as_object, objects
from refsol.reads import DECIDES, Read, pages
from refsol.resources import TIMES, coded_in
from refsol.verdict import Verdict

_PAGE_NOT_OPENED = "a page of a search was not opened"
ADDED = "zz-added-"
"""The ids of added resources begin with it, so that they sort after the others."""


class World(Protocol):
    """A FHIR server with some resources."""

    def put(self, resources: Iterable[Resource]) -> None:
        """Add resources, whatever they refer to."""

    def get(self, url: str) -> Mapping[str, Any]:
        """The JSON of the reply to a GET; an empty object for an error."""


Judge = Callable[[Source], Verdict]
"""Judges the agent's reply over a source of its chart."""
OpenWorld = Callable[[], AbstractContextManager[World]]
"""Opens an empty world."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known besides a task's chart: examples of the hospital's resources, and Patients by id."""

    open_world: OpenWorld
    examples: Examples = field(default_factory=dict)
    patients: Mapping[str, Resource] = field(default_factory=dict)


def grounds(verdict: Verdict, reads: Sequence[Read] | None, surroundings: Surroundings | None) -> Grounds:
    """The grounds of an item. `reads` are the GETs before the first write (None: they are not stored). Without
    `surroundings`, those of a right item are unknown.
    """
    if verdict.correct is None:
        return NOT_GRADED
    if verdict.basis and not verdict.needed:
        return NO_READING
    if reads is None:
        return UNKNOWN
    if not verdict.correct:
        return Grounds(False)
    if surroundings is None or verdict.judge_over is None:
        return UNKNOWN
    return _Decision(verdict, verdict.judge_over, reads, surroundings).grounds


class Missed(NamedTuple):
    """What the agent of a wrong item had not read, in words. `page`: it was on a page that was not opened."""

    words: str
    page: bool

    @property
    def without_data(self) -> Missed:
        """The same without values, times or ids of a chart."""
        return self._replace(words=_PAGE_NOT_OPENED if self.page else "never read the data that decides")


def missed(verdict: Verdict, reads: Sequence[Read], surroundings: Surroundings) -> Missed | None:
    """What the agent of a wrong item had not read of what decides; None if it had read all, or if it is unknown."""
    if verdict.correct is not False or verdict.judge_over is None or not isinstance(verdict.basis, Ruled):
        return None
    return _Decision(verdict, verdict.judge_over, reads, surroundings).missed


# What an agent read


@dataclass(frozen=True)
class PagedSearch:
    """The pages of a search that an agent read, from the first on. `complete`: they include the last one."""

    pages: Sequence[Read]
    complete: bool

    @property
    def url(self) -> str:
        """The URL of the first page."""
        return self.pages[0].url

    @cached_property
    def resources(self) -> Mapping[str, Resource]:
        """The resources in the replies, by reference."""
        return {ref(resource): resource for page in self.pages for resource in page.resources}

    @cached_property
    def is_sorted(self) -> bool:
        """Whether its order says something about a resource. An id says nothing."""
        keys = [key for value in self.pages[0].parameters.get("_sort", []) for key in value.split(",")]
        return bool(keys) and keys[0].lstrip("-") not in ("", "_id") and self.is_from_start

    @cached_property
    def is_from_start(self) -> bool:
        """Whether no parameter skips the first matches."""
        return self.pages[0].parameters.get("_offset", ["0"]) == ["0"]

    @property
    def is_empty(self) -> bool:
        """Whether it found nothing."""
        return is_empty(self.pages[0].body)

    def shows(self, order: Sequence[str]) -> set[str]:
        """What it would show of a chart on which it finds these resources, in this order.

        A search with an unread page shows what comes before a resource that it has shown, if it is sorted; otherwise
        nothing new.
        """
        if self.complete and self.is_from_start:
            return set(order)
        places = [place for place, name in enumerate(order) if name in self.resources]
        if self.is_sorted and places:
            return set(order[: places[-1] + 1])
        return {order[place] for place in places}


def paged_searches(reads: Sequence[Read]) -> list[PagedSearch]:
    """The searches and other reads of an agent, each with its pages. The same URL counts once."""
    followed = {read.next_page for read in reads}
    first = {read.url: read for read in reads if read.url not in followed}
    return [PagedSearch(*pages(reads, read)) for read in first.values()]


def is_empty(body: Mapping[str, Any]) -> bool:
    """Whether a Bundle has neither matches nor a total."""
    return body.get("resourceType") == "Bundle" and not body.get("entry") and str(body.get("total") or 0) == "0"


def replayed_url(read: Read) -> str:
    """The URL with which a read is repeated: in JSON, and with all matches of a search on one page."""
    address, _, query = read.url.partition("?")
    parts = parse_qsl(query, keep_blank_values=True)
    rest = [(name, value) for name, value in parts if name not in ("_format", "_pretty", "_count")]
    if ("_count", "0") in parts:
        rest.append(("_count", "0"))
    elif read.is_bundle:
        rest.append(("_count", str(PAGE)))
    return f"{address}?{urlencode(rest)}" if rest else address


@dataclass(frozen=True, slots=True)
class _Reply:
    """The reply of a world to one search: its resources in order."""

    body: Mapping[str, Any]
    resources: Mapping[str, Resource]

    @classmethod
    def of(cls, world: World, search: PagedSearch) -> _Reply:
        body = world.get(replayed_url(search.pages[0]))
        return cls(body, {ref(resource): resource for resource in Read(search.url, body).resources if resource})

    @property
    def size(self) -> int:
        """The number of matches: the total of a reply that only counts."""
        total = self.body.get("total")
        return len(self.resources) or (total if isinstance(total, int) else 0)


# The decision


class _Decision:
    """One decision: the record of the rule, the searches, and what the small world contains.

    For a right reply, a neighbouring chart matters if the reply would be wrong on it; for a wrong one, if another reply
    would be right on it.
    """

    def __init__(self, verdict: Verdict, judge: Judge, reads: Sequence[Read], surroundings: Surroundings) -> None:
        self._judge = judge
        self._surroundings = surroundings
        self._is_right = verdict.correct
        self._searches = paged_searches(reads)
        shown = self._shown = [resource for search in self._searches for resource in search.resources.values()]
        self._whole = {ref(resource): resource for resource in shown if not _is_partial(resource)}
        self._ruled = _ruled(verdict)
        self._chart = self._ruled.chart
        self._evidence = cast("Sequence[Evidence]", self._chart.required)
        stated = [resource for evidence in self._evidence for resource in evidence.resources(shown)]
        self._parts = {ref(resource): resource for resource in (*self._chart.touched.values(), *stated)}
        self._doubts = ""

    @property
    def grounds(self) -> Grounds:
        """See `grounds`."""
        changed, shown = self._changed()
        added, unknown = self._added()
        for evidence in self._evidence:
            neighbours = evidence.neighbours(self._shown, self._surroundings.examples)
            unknown = unknown or ("" if neighbours else f"{evidence.words} cannot be told from the text")
            shown = shown or any(map(self._is_shown, neighbours))
            changed += [neighbour for neighbour in neighbours if neighbour.changed and not self._is_shown(neighbour)]
            added += [neighbour for neighbour in neighbours if neighbour.added is not None]
        if not (changed or added or shown):
            if reason := unknown or self._doubts:
                return Grounds(None, f"unknown: {reason}", UNKNOWN.kind)
            return Grounds(True) if self._searches and self._has_read_all else NO_READING
        if (changed or added) and not self._searches:
            words = f"read nothing: {(changed or added)[0].words} would make this reply wrong"
            return Grounds(False, words, "read nothing")
        added = [neighbour.renamed(f"{ADDED}{place}") for place, neighbour in enumerate(added)]
        neighbour = next(self._not_excluded(changed, added), None)
        if neighbour is not None:
            return self._unknowable(neighbour)
        if self._doubts or unknown:
            return Grounds(None, f"unknown: {self._doubts or unknown}", UNKNOWN.kind)
        return Grounds(True)

    @property
    def _has_read_all(self) -> bool:
        """Whether the replies exclude every neighbouring chart, although the reply is right on all of them."""
        examples = self._surroundings.examples
        hidden = [neighbour for neighbour in changed_charts(self._chart, examples) if not self._is_shown(neighbour)]
        groups = [group for groups in added_charts(self._chart, examples) for group in groups]
        added = [group[0].renamed(f"{ADDED}{place}") for place, group in enumerate(groups)]
        return next(self._not_excluded(hidden, added), None) is None

    def _changed(self) -> tuple[list[Neighbour], bool]:
        """The neighbours with something else that matter and that no reply shows at once; and whether one matters that
        a reply shows.
        """
        hidden, shown_one = list[Neighbour](), False
        for neighbour in changed_charts(self._chart, self._surroundings.examples):
            shown = self._is_shown(neighbour)
            if not (shown and shown_one) and self._matters(neighbour):
                shown_one = shown_one or shown
                if not shown:
                    hidden.append(neighbour)
        return hidden, shown_one

    @property
    def missed(self) -> Missed | None:
        """See `missed`."""
        for searched in self._chart.searched:
            unread = [used for used in searched.used if not self._has_read(used, searched)]
            if unread:
                more = f" (and {len(unread) - 1} more)" if len(unread) > 1 else ""
                return self._unread(searched, unread[0], more)
        matter = [added.renamed(f"{ADDED}{place}") for place, added in enumerate(self._added()[0])]
        if not matter:
            return None
        if not self._searches:
            return Missed(f"never read {self._absence}", page=False)
        before, after = self._replies(matter)
        unseen = [neighbour for neighbour in matter if not self._sees(neighbour, before, after)]
        if not unseen or self._doubts:
            return None
        page = self._on_unread_page(ref(unseen[0].added or {}), after)
        return Missed(f"{self._pages_read}; {unseen[0].words} on it" if page else f"never read {self._absence}", page)

    def _has_read(self, used: Resource, searched: Searched) -> bool:
        """Whether a reply contains a resource with the element that says something."""
        is_patient = searched.search.kind == "Patient"
        element = (searched.what or "birthDate") if is_patient else DECIDES.get(searched.search.kind, "")
        shown = [search.resources.get(ref(used), {}) for search in self._searches]
        return any(name.startswith(element) for resource in shown for name in resource)

    def _unread(self, searched: Searched, used: Resource, more: str) -> Missed:
        name = searched.words_of(used)
        if searched.search.kind != "Patient" and self._searches:
            before, _ = self._replies(())
            if self._on_unread_page(ref(used), before):
                return Missed(f"{self._pages_read}; {name} was not on it, and the next page was not opened{more}", True)
        return Missed(f"never read {name}{more}", page=False)

    def _on_unread_page(self, name: str, replies: Sequence[_Reply]) -> bool:
        """Whether a search with an unread page would show a resource with all its pages."""
        return any(
            not search.complete and name in reply.resources
            for search, reply in zip(self._searches, replies, strict=True)
        )

    @property
    def _absence(self) -> str:
        """The first search of the rule that found nothing, in words."""
        absent = next((searched for searched in self._lookups if not searched.used), None)
        return f"a complete search of {(absent or self._lookups[0]).name}"

    @property
    def _pages_read(self) -> str:
        """`read page 1`: of the first search with an unread page."""
        count = next(len(search.pages) for search in self._searches if not search.complete)
        return "read page 1" if count == 1 else f"read pages 1 to {count}"

    def _matters(self, neighbour: Neighbour) -> bool:
        try:
            verdict = self._judge(Changed(self._chart.source, neighbour.change))
        except FactsError:
            self._doubts = self._doubts or f"the facts do not say what is right if {neighbour.words}"
            return False
        if self._is_right:
            return verdict.correct is False
        if not isinstance(verdict.basis, Ruled):
            return False
        after = verdict.basis
        return signature(after.ruling, after.chart) != signature(self._ruled.ruling, self._chart)

    def _added(self) -> tuple[list[Neighbour], str]:
        """The neighbours with one more resource on which the reply is wrong, and why some are unknown."""
        added, unknown = list[Neighbour](), ""
        charts = added_charts(self._chart, self._surroundings.examples)
        for searched, groups in zip(self._lookups, charts, strict=True):
            if example_name(searched) not in self._surroundings.examples:
                unknown = unknown or f"no example of {searched.name} is known"
            for group in groups:
                added += islice(filter(self._matters, group), 1)
        return added, unknown

    @property
    def _lookups(self) -> list[Searched]:
        return [searched for searched in self._chart.searched if searched.search.kind != "Patient"]

    def _is_shown(self, neighbour: Neighbour) -> bool:
        """Whether a reply contains a changed resource with an element that changes."""
        for name, new in neighbour.changed.items():
            old = self._parts.get(name, {})
            elements = _different(old, new)
            for search in self._searches:
                resource = search.resources.get(name)
                if resource is not None and (new is None or not elements.isdisjoint(resource)):
                    return True
        return False

    def _not_excluded(self, changed: Sequence[Neighbour], added: Sequence[Neighbour]) -> Iterator[Neighbour]:
        """The neighbours that no reply excludes. One with an added resource is replayed alone if it is not seen among
        all added ones, since they can displace each other.
        """
        if changed or added:
            before, after = self._replies(added)
            unseen = (neighbour for neighbour in added if not self._sees(neighbour, before, after))
            yield from (neighbour for neighbour in (*unseen, *changed) if not self._excludes(neighbour, before))

    def _replies(self, added: Sequence[Neighbour]) -> tuple[list[_Reply], list[_Reply]]:
        """The replies on the chart, and with all added resources."""
        with self._surroundings.open_world() as world:
            world.put(self._contents())
            before = [_Reply.of(world, search) for search in self._searches]
            if not added:
                return before, before
            world.put(filter(None, (neighbour.added for neighbour in added)))
            return before, [_Reply.of(world, search) for search in self._searches]

    def _sees(self, neighbour: Neighbour, before: Sequence[_Reply], after: Sequence[_Reply]) -> bool:
        """Whether a reply would contain an added resource, so that an agent could tell what it is."""
        return bool(self._seeing(neighbour, before, after, faithful=True))

    def _seeing(
        self, neighbour: Neighbour, before: Sequence[_Reply], after: Sequence[_Reply], *, faithful: bool
    ) -> PagedSearch | None:
        """The first search that would show an added resource, of those to which this server replies as the recorded one
        did, or of the others.
        """
        assert neighbour.added is not None
        name = ref(neighbour.added)
        for search, old, new in zip(self._searches, before, after, strict=True):
            if name not in search.shows(list(new.resources)) or self._is_faithful(search, old) != faithful:
                continue
            if search.is_empty or self._is_told(search, neighbour.added, new.resources[name]):
                return search
        return None

    def _is_told(self, search: PagedSearch, added: Resource, shown: Resource) -> bool:
        """Whether a reply shows whose a resource is, what it is about, and when it was: one that does not matter, of
        another patient, with another code or long ago, would not have been in it.
        """
        another: dict[str, Any] = {
            "subject": {"reference": f"Patient/{ANOTHER_PATIENT}"},
            "patient": {"reference": f"Patient/{ANOTHER_PATIENT}"},
            coded_in(str(added.get("resourceType"))): ANOTHER_CODE,
        }
        unlike = [{name: another[name]} for name in another.keys() & added.keys() - shown.keys()]
        times = added.keys() & TIMES
        if times and times.isdisjoint(shown):
            unlike.append(dict.fromkeys(times, LONG_AGO))
        for elements in unlike:
            variant = Neighbour("", added={**added, **elements})
            with self._surroundings.open_world() as world:
                world.put(self._contents(variant))
                is_shown = ref(added) in search.shows(list(_Reply.of(world, search).resources))
            if is_shown and not self._matters(variant):
                return False
        return True

    def _is_faithful(self, search: PagedSearch, reply: _Reply) -> bool:
        """Whether the world's reply on the unchanged chart contains the same of what the rule read."""
        shown = search.shows(list(reply.resources))
        return all((name in search.resources) == (name in shown) for name in self._parts)

    def _excludes(self, neighbour: Neighbour, before: Sequence[_Reply]) -> bool:
        """Whether a reply would have been another one on a neighbouring chart, or whether that is in doubt, because
        this server does not reply as the recorded one did.
        """
        with self._surroundings.open_world() as world:
            world.put(self._contents(neighbour))
            after = [_Reply.of(world, search) for search in self._searches]
        if neighbour.added is not None and self._sees(neighbour, before, after):
            return True
        doubtful = None
        for search, old, new in zip(self._searches, before, after, strict=True):
            shown_before, shown_after = search.shows(list(old.resources)), search.shows(list(new.resources))
            for name in neighbour.changed:
                if (name in shown_before) != (name in search.resources):
                    doubtful = search
                elif (name in shown_before) != (name in shown_after):
                    return True
            if _answers(search, old, new):
                return True
        if neighbour.added is not None:
            doubtful = self._seeing(neighbour, before, after, faithful=False)
        if doubtful is not None:
            self._doubts = self._doubts or f"the embedded server would reply otherwise to {doubtful.url}"
        return doubtful is not None

    # The small world

    def _contents(self, neighbour: Neighbour | None = None) -> list[Resource]:
        """The resources of the small world: the Patients, what the rule read, and the pages of sorted searches with an
        unread page.
        """
        resources = {ref(patient): patient for patient in self._people}
        resources |= {name: self._completed(part) for name, part in self._parts.items()}
        for search in self._searches:
            if not search.complete and search.is_sorted:
                resources |= {name: self._whole[name] for name in search.resources if name in self._whole}
        if neighbour is not None:
            for name, new in neighbour.changed.items():
                if new is None:
                    resources.pop(name, None)
                else:
                    old = self._parts.get(name, {})
                    whole = {key: part for key, part in resources.get(name, {}).items() if key in new or key not in old}
                    resources[name] = {**whole, **{key: new[key] for key in _different(old, new) if key in new}}
            if neighbour.added is not None:
                resources[ref(neighbour.added)] = neighbour.added
        return list(resources.values())

    @property
    def _people(self) -> Iterator[Resource]:
        """The Patients: as shown, as the rule read them, or only with their id."""
        patient = self._chart.patient
        ids = dict.fromkeys([patient, *(name.partition("/")[2] for name in self._whole if name.startswith("Patient/"))])
        for name in filter(None, ids):
            least = {"resourceType": "Patient", "id": name, "identifier": [{"value": name}]}
            yield self._whole.get(f"Patient/{name}") or self._surroundings.patients.get(name) or least

    def _completed(self, part: Resource) -> Resource:
        """A resource that the rule read, with all that a reply shows of it; otherwise with what an example adds."""
        name = ref(part)
        if name in self._whole:
            return self._whole[name]
        shown = {key: value for search in self._searches for key, value in search.resources.get(name, {}).items()}
        shown.pop("meta", None)
        searched = next((searched for searched in self._lookups if is_about(part, searched)), None)
        examples = self._surroundings.examples.get(example_name(searched), ()) if searched else ()
        if searched is None or not examples:
            return {**part, **shown}
        example = example_for(self._chart.patient, examples[0], part)
        return {**example, **part, **shown}

    # Words

    def _unknowable(self, neighbour: Neighbour) -> Grounds:
        """Why an agent could not know that its chart is not a neighbouring one."""
        if neighbour.added is None:
            words = f"no reply shows that it is not so: {neighbour.words}"
            return Grounds(False, words, "no reply shows the data that decides")
        if any(not search.complete for search in self._searches):
            words = f"{self._pages_read}; {neighbour.words} on a page that was not opened would make this reply wrong"
            return Grounds(False, words, _PAGE_NOT_OPENED)
        words = f"no search could have shown {neighbour.words}, which would make this reply wrong"
        if len(self._searches) == 1:
            query = urlsplit(self._searches[0].url).query
            words = f"the search could not have shown {neighbour.words} (`{query}`)"
        return Grounds(False, words, "no search could have shown one more of the data that decides")


def _ruled(verdict: Verdict) -> Ruled:
    assert isinstance(verdict.basis, Ruled)
    return verdict.basis


def _answers(search: PagedSearch, before: _Reply, after: _Reply) -> bool:
    """Whether a search that found nothing would have found something, or the other way round."""
    if is_empty(before.body) == is_empty(after.body) or is_empty(before.body) != search.is_empty:
        return False
    return search.is_empty or before.size == _size(search)


def _size(search: PagedSearch) -> int:
    total = search.pages[0].body.get("total")
    return len(search.resources) or (total if isinstance(total, int) else 0)


def _different(old: Resource, new: Resource | None) -> set[str]:
    """The elements in which two states of a resource differ."""
    new = new or {}
    return {name for name in {*old, *new} - {"meta"} if old.get(name) != new.get(name)}


def _is_partial(resource: Resource) -> bool:
    """Whether a reply showed only some elements of a resource."""
    tags = objects(as_object(resource.get("meta")).get("tag"))
    return any(tag.get("code") == "SUBSETTED" for tag in tags)
