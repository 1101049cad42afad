"""A patient's encounters, and the encounter that a time belongs to.

A stay is one encounter. Its time in the emergency department and in intensive care are encounters of their own, as
parts of it. Laboratory tests, orders and notes belong to the encounter of the stay. Vital signs and fluid outputs
belong to the part in which the patient was at that time.
"""

from __future__ import annotations

from dataclasses import dataclass

from fhir_server.synthetic._care import Visit
from fhir_server.synthetic._stays import Segment, Stay
from fhir_server.synthetic._story import Story


class Ids:
    """Numbers the resources of a hospital."""

    def __init__(self, number: int) -> None:
        self._number = number

    def next(self, letter: str) -> str:
        """The next id: a letter for the type, and a number."""
        self._number += 1
        return f"{letter}{self._number}"


@dataclass(frozen=True, slots=True)
class Contact:
    """An encounter. `parts` are the encounters of a stay's emergency and intensive care segments."""

    id: str
    start: int
    end: int | None
    what: Stay | Visit | Segment
    parts: tuple[Contact, ...] = ()

    @property
    def until(self) -> int:
        """The end, or the last minute before now."""
        return -1 if self.end is None else self.end


class Contacts:
    """All encounters of a patient."""

    def __init__(self, story: Story, ids: Ids) -> None:
        self.stays: list[Contact] = []
        self.visits = [Contact(ids.next("e"), visit.start, visit.end, visit) for visit in story.visits]
        for stay in story.stays:
            encounter = ids.next("e")
            parts = tuple(
                Contact(ids.next("e"), part.start, part.end, part) for part in stay.segments if part.kind != "WARD"
            )
            self.stays.append(Contact(encounter, stay.start, stay.end, stay, parts))
        self._all = [*self.stays, *self.visits]

    def at(self, time: int) -> Contact | None:
        """The stay or visit at this time."""
        for contact in self._all:
            if contact.start <= time <= contact.until:
                return contact
        return None

    def encounter(self, time: int) -> str:
        """The id of the stay or visit at this time; "" if there is none."""
        contact = self.at(time)
        return contact.id if contact else ""

    @staticmethod
    def bedside(contact: Contact, time: int) -> str:
        """The id of the stay's emergency or intensive care encounter at this time, otherwise of the stay itself."""
        for part in contact.parts:
            if part.start <= time < part.until:
                return part.id
        return contact.id
