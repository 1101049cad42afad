"""The patients' demographics. Some patients share a name or a birth date, so that an agent must tell them apart.

The names of persons, streets and towns are of mixed origins and belong to no real person.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

from fhir_server.synthetic._clock import HospitalClock
from fhir_server.synthetic.seeded_random import SeededRandom


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_FEMALE = _words(
    "Abena Adela Agnes Aiko Aisha Alma Amara Anneke Anya Asha Beatriz Bianca Brigid Carmen Chiara Clara Dalia Danuta "
    "Delia Edith Elif Eszter Farida Fatima Freya Gwen Hana Helga Ines Ingrid Irena Jana Joy Judith Kalinda Keiko Laila "
    "Leonor Lien Linnea Lucia Mairead Mariam Mei Mina Nadia Nia Noor Odile Oksana Paloma Petra Priya Rosa Ruth Saoirse "
    "Shira Simone Soo-Jin Tamar Thandi Ursula Wanda Yara Zofia"
)
_MALE = _words(
    "Abel Ahmed Akira Albin Amir Anselm Arjun Arlo Bao Bela Bogdan Caleb Cedric Cyrus Dario Desmond Diego Emeka Emil "
    "Enzo Farid Felix Gareth Gustav Hamid Hector Hugo Ibrahim Imre Ivo Jamal Jasper Jorge Kaito Kofi Kwame Lars "
    "Leandro Levi Lukas Magnus Malik Marek Matteo Milan Mustafa Nabil Niall Nuno Omar Oskar Pavel Rafael Ravi Ruben "
    "Samir Sean Stellan Tadeusz Tariq Tomas Umberto Viktor Walter Yusuf Zoltan"
)
_FAMILIES = _words(
    "Abara Adeyemi Almeida Andersson Arslan Baptiste Barkley Bekele Belmonte Bergstrom Boateng Bodnar Brannigan "
    "Calderon Castellan Chaudhry Chowdhury Cisneros Corrigan Dahlgren Delacroix Demir Diallo Dragomir Eastwick Eklund "
    "Falconer Farkas Feldstein Fontaine Galvez Gebremariam Grabowski Greywell Gunderson Haddad Halloran Hargrove "
    "Hashimoto Hegedus Horvat Ibarra Ishikawa Iyer Jankovic Jokinen Kapoor Kessler Kowalczyk Lachance Lindholm "
    "Lombardi Mahlangu Marchetti Mbeki Mendoza Moravec Nakagawa Nazari Novotny Obafemi Ochoa Okonkwo Olafsson Osei "
    "Pacheco Papadakis Pelletier Petrenko Quintana Rahimi Rasmussen Redfeather Rosales Rutherby Saito Salcedo "
    "Sandoval-Cruz Santangelo Schreiber Shapira Sithole Skarsgard Soriano Stavros Szabo Takahashi Tembo Thibault "
    "Tran-Nguyen Uchida Valdivia Vandermeer Vasquez Villareal Wexler Whitlock Wojcik Yamada Yilmaz Zamora Zielinski"
)
STREETS = _words("Alder Birch Cedar Chapel Clay Dover Elm Fern Granite Harbor Hazel Juniper Lark Linden Maple Mill")
WAYS = ("Avenue", "Court", "Drive", "Lane", "Road", "Street", "Terrace", "Way")
TOWNS = (
    ("Ashbourne Falls", "OR", "970"),
    ("Brightwater", "MN", "553"),
    ("Cedar Hollow", "TX", "786"),
    ("Dunmore Heights", "PA", "184"),
    ("Eastmere", "MA", "019"),
    ("Fairlow", "CA", "940"),
    ("Glenharbor", "ME", "045"),
    ("Kestrel Point", "WA", "982"),
    ("Larkspur Bend", "CO", "805"),
    ("North Tilden", "IL", "600"),
)
RACES = (
    ("2106-3", "White"),
    ("2106-3", "White"),
    ("2106-3", "White"),
    ("2054-5", "Black or African American"),
    ("2054-5", "Black or African American"),
    ("2028-9", "Asian"),
    ("1002-5", "American Indian or Alaska Native"),
    ("2131-1", "Other Race"),
)
ETHNICITIES = (
    ("2186-5", "Non-Hispanic"),
    ("2186-5", "Non-Hispanic"),
    ("2186-5", "Non-Hispanic"),
    ("2135-2", "Hispanic or Latino"),
)


_LETTERS = "ABCDEFGHJKLMNPRSTUVWXYZ"
NAMESAKES = 0.04
"""The share of patients with the name of another patient, and the share with the birth date and family name of another.
"""
BIRTHDAYS = {"today": 0.16, "week before": 0.06, "week after": 0.06}
"""The share of patients with a birthday near today. Their ages are easily wrong by one year."""
LEAP, LEAP_YEAR = 1_000, 1956
_SINGLE, _MARRIED, _DIVORCED, _WIDOWED = ("S", "Never Married"), ("M", "Married"), ("D", "Divorced"), ("W", "Widowed")
_YOUNG = (_SINGLE, _SINGLE, _SINGLE, _MARRIED)
_MARITAL = (_SINGLE, _MARRIED, _MARRIED, _MARRIED, _DIVORCED)
_OLD = (_MARRIED, _MARRIED, _MARRIED, _WIDOWED, _WIDOWED, _DIVORCED, _SINGLE)
"""Marital statuses by age: codes of HL7 v3 MaritalStatus."""
FEMALE = (
    *_FEMALE,
    *("Åsa", "Zoë", "Chloé", "Inès", "Łucja", "Márta", "Noémi", "Sinéad", "Şule", "Thị Mai", "Ana María", "Đurđa"),
    *("Xiulan", "Yuki", "Nasrin", "Ifeoma", "Leilani", "Anahit", "Ketevan", "Wanjiru", "Siosaia", "Rukmini"),
)
MALE = (
    *_MALE,
    *("André", "Björn", "Ciarán", "Günter", "İsmail", "José Luis", "Łukasz", "Øyvind", "Raúl", "Séan", "Tomáš"),
    *("Wei", "Hiroshi", "Dae-Jung", "Chidi", "Kapono", "Aram", "Giorgi", "Kipchoge", "Tevita", "Venkat"),
)
FAMILIES = (
    *_FAMILIES,
    *("Álvarez", "Åkesson", "Çelik", "D'Amico", "de la Cruz", "Đặng", "Gómez-Ruiz", "Kovačević", "MacLeod"),
    *("Müller", "Nuñez", "O'Rourke", "Öztürk", "Přibyl", "Sørensen", "Škoda", "van den Berg", "Włodarczyk", "Zhāng"),
    *("Kahananui", "Petrosyan", "Gelashvili", "Mwangi", "Tuilagi", "Subramanian", "Watanabe", "Kim", "Nguyen", "Silva"),
)


@dataclass(frozen=True, slots=True)
class Person:
    """Demographics of a patient. `mrn` is both the id and the identifier."""

    mrn: str
    family: str
    given: str
    gender: str
    birth: date
    race: tuple[str, str]
    ethnicity: tuple[str, str]
    phone: str
    street: str
    town: tuple[str, str, str]
    zip: str
    age: int
    marital: tuple[str, str]
    insurance: str
    died: int | None = None
    """The time of death (`HospitalClock`)."""


def people(
    rng: SeededRandom, clock: HospitalClock, mrns: Sequence[str], ages: Sequence[tuple[int, int]]
) -> list[Person]:
    """One person for each MRN and (youngest, oldest) age. The last ones get names or birth dates of the first ones."""
    count = len(ages)
    days = _birthdays(rng, clock, count)
    families = rng.shuffled(FAMILIES)
    out = [
        _person(rng, clock, mrns[n], families[n % len(families)], _born(rng, clock, days[n], ages[n]))
        for n in range(count)
    ]
    pairs = max(1, round(NAMESAKES * count))
    for n in range(pairs):
        model, twin = out[n], count - 1 - n
        out[twin] = replace(out[twin], family=model.family, given=model.given, gender=model.gender)
        model, twin = out[pairs + n], count - 1 - pairs - n
        givens = [name for name in _givens(model.gender) if name != model.given]
        out[twin] = replace(
            out[twin],
            family=model.family,
            given=rng.pick(givens),
            gender=model.gender,
            birth=model.birth,
            age=model.age,
        )
    return out


class Mrns:
    """Maps a patient's place in the hospital to a unique MRN. The order of the MRNs depends on the seed.

    In `form`, `#` is a digit and `@` a letter. A place is encrypted by a Feistel network of four rounds over the
    smallest even number of bits that can hold all MRNs of the format. A result that is too large is encrypted again. So
    no MRN has to be stored.
    """

    def __init__(self, rng: SeededRandom, form: str) -> None:
        self._form = form
        self._keys = [(rng.between(1, 2**31) | 1, rng.between(0, 2**31)) for _ in range(4)]
        self._size = 1
        for sign in form:
            self._size *= {"#": 10, "@": len(_LETTERS)}.get(sign, 1)
        self._half = (self._size.bit_length() + 1) // 2
        self._mask = (1 << self._half) - 1

    def __getitem__(self, place: int) -> str:
        number = self._mixed(place)
        while number >= self._size:
            number = self._mixed(number)
        signs = []
        for sign in reversed(self._form):
            base = {"#": "0123456789", "@": _LETTERS}.get(sign)
            if base is None:
                signs.append(sign)
            else:
                number, digit = divmod(number, len(base))
                signs.append(base[digit])
        return "".join(reversed(signs))

    def _mixed(self, number: int) -> int:
        left, right = number >> self._half, number & self._mask
        for factor, offset in self._keys:
            left, right = right, left ^ ((((right + 1) * factor + offset) * (right + factor) >> 9) & self._mask)
        return left << self._half | right


def _birthdays(rng: SeededRandom, clock: HospitalClock, count: int) -> list[int]:
    """Days from today to this year's birthday, half of them before today. `LEAP` means 29 February."""
    passed = clock.today.timetuple().tm_yday - 1
    near = [0] * round(BIRTHDAYS["today"] * count) + [LEAP]
    near += [max(-passed, -1 - n % 7) for n in range(round(BIRTHDAYS["week before"] * count))]
    near += [min(364 - passed, 1 + n % 7) for n in range(round(BIRTHDAYS["week after"] * count))]
    rest = count - len(near)
    before = [rng.between(-passed, -1) for _ in range(rest // 2)]
    after = [rng.between(1, 364 - passed) for _ in range(rest - rest // 2)]
    return rng.shuffled(near + before + after)[:count]


def _born(rng: SeededRandom, clock: HospitalClock, offset: int, ages: tuple[int, int]) -> date:
    if offset == LEAP:
        return date(LEAP_YEAR + 4 * rng.between(0, 5), 2, 29)
    day = clock.date_of(offset)
    if (day.month, day.day) == (2, 29):
        day = clock.date_of(offset - 1)
    return day.replace(year=day.year - rng.between(*ages))


def _givens(gender: str) -> tuple[str, ...]:
    return FEMALE if gender == "female" else MALE


def _marital_statuses(age: int) -> tuple[tuple[str, str], ...]:
    if age < 30:
        return _YOUNG
    return _MARITAL if age < 65 else _OLD


def _person(rng: SeededRandom, clock: HospitalClock, mrn: str, family: str, birth: date) -> Person:
    gender = rng.pick(("female", "male"))
    town = rng.pick(TOWNS)
    today = clock.today
    age = today.year - birth.year - ((today.month, today.day) < (birth.month, birth.day))
    return Person(
        mrn=mrn,
        family=family,
        given=rng.pick(_givens(gender)),
        gender=gender,
        birth=birth,
        race=rng.pick(RACES),
        ethnicity=rng.pick(ETHNICITIES),
        phone=f"{rng.between(201, 989)}-555-{rng.between(100, 199):04d}",
        street=f"{rng.between(3, 9800)} {rng.pick(STREETS)} {rng.pick(WAYS)}",
        town=town,
        zip=f"{town[2]}{rng.between(1, 99):02d}",
        age=age,
        marital=rng.pick(_marital_statuses(age)),
        insurance="Medicare" if age >= 65 else rng.pick(("Private", "Private", "Private", "Medicaid", "Self pay")),
    )
