"""A made-up hospital for every seed: FHIR R4 resources of so many patients, the same bytes everywhere.

    profile  what is asked for: size, clock, the tests that decide and their levels
      → courses (how the deciding tests end) → story (who, and when they were seen)
      → chart (observations, from physiology) and events (all else)
      → render (lines of JSON)

Chance comes from `fhir_server.synthetic.dice` alone.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from fhir_server.synthetic import render
from fhir_server.synthetic.chart import Chart
from fhir_server.synthetic.clock import Clock
from fhir_server.synthetic.dice import Dice
from fhir_server.synthetic.events import Events
from fhir_server.synthetic.profile import BUNDLED, FULL, KeyTest, Profile, Size
from fhir_server.synthetic.story import Story, stories

__all__ = ["BUNDLED", "FULL", "KeyTest", "Profile", "Size", "lines"]


def lines(profile: Profile) -> Iterator[str]:
    """The hospital as lines of compact JSON, without line ends; each refers only to patients before it."""
    clock = Clock(profile.now)
    dice = Dice(profile.seed)
    told = stories(dice, clock, profile)
    number = dice.between(100_000, 900_000)
    for place, story in enumerate(dice.shuffled(told)):
        own = Dice(profile.seed * 100_003 + place)
        person = story.person
        died = None if person.died is None else clock.text(clock.at(person.died, own.between(0, 23), 30))
        yield render.line(render.patient(person, died))
        number = yield from _chart(own, clock, profile, story, number)


def _chart(dice: Dice, clock: Clock, profile: Profile, story: Story, number: int) -> Generator[str, None, int]:
    """A patient's chart; gives the next free number of an id."""
    events = Events(dice, clock, profile, story, number)
    for resource in events.resources():
        yield render.line(resource)
    number = events.number
    subject = render.line(render.subject(story.person.mrn))
    for reading in Chart(dice, clock, profile, story).readings():
        taken = clock.text(reading.time)
        issued = clock.text(min(reading.time + reading.delay, -1)) if reading.delay else taken
        yield render.observation(number, reading.code, reading.status, subject, (taken, issued), reading.value)
        number += 1
    return number
