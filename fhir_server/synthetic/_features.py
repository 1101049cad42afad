"""Features that decide tasks about orders, so that each branch of these tasks has patients in every hospital.

Renal tumours, CTs of the abdomen, thyroid tests, QT intervals, opioids, anticoagulants, urinary catheters, heart rate
monitors, vaccines. The kinds of each feature are assigned by share to the patients who can have it, independently of
the other features. The four key tests are assigned in `_courses`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fhir_server.synthetic.dice import Dice

_SHARES: dict[str, tuple[tuple[str, float], ...]] = {
    "tumour": (("yes", 0.27), ("no", 0.73)),
    "ct": (("recent", 0.34), ("old", 0.36), ("none", 0.3)),
    "thyroid": (
        *(("overt", 0.17), ("subclinical", 0.17), ("once high", 0.05), ("low hormone", 0.05)),
        *(("normal", 0.44), ("none", 0.12)),
    ),
    "qt": (
        *(("long", 0.2), ("stored last", 0.03), ("stored first", 0.03), ("late long", 0.06)),
        *(("late normal", 0.06), ("normal", 0.42), ("none", 0.2)),
    ),
    "opioid": (("alone", 0.22), ("with naloxone", 0.16), ("none", 0.62)),
    "anticoagulant": (("heparin", 0.34), ("two", 0.26), ("other", 0.14), ("none", 0.26)),
    "catheter": (("long", 0.34), ("ordered", 0.14), ("short", 0.24), ("none", 0.28)),
    "monitor": (("on", 0.76), ("off", 0.16), ("long off", 0.08)),
    "influenza": (("recent", 0.48), ("old", 0.36), ("none", 0.16)),
    "covid": (("recent", 0.48), ("old", 0.36), ("none", 0.16)),
}
_CONCERNS = {
    "tumour": ("admitted", "followed"),
    **dict.fromkeys(("anticoagulant", "catheter", "monitor"), ("admitted",)),
}
"""The settings whose patients can have a feature. A feature that is not listed can occur in all settings."""
_STAGING = (("recent", 0.25), ("old", 0.5), ("none", 0.25))
"""The CTs of patients with a tumour."""


@dataclass(frozen=True, slots=True)
class Features:
    """A patient's kind of each feature. The kinds are those of `_SHARES`."""

    tumour: str = "no"
    ct: str = "none"
    """The last CT of the abdomen: `recent` is within a year (with a tumour: within 90 days)."""
    thyroid: str = "normal"
    """`overt`: TSH above 10 twice. `subclinical`: TSH 4.5 to 10 with a normal free T4. `once high`: TSH above 10 once.
    `low hormone`: TSH 4.5 to 10 with a low free T4."""
    qt: str = "none"
    """The QTc of two electrocardiograms. `long`: the last one is above 500 ms. In the kinds `stored …` and `late …` the
    earlier one is stored last. `stored last`: only the one stored last is above 500 ms. `stored first`: only the one
    stored first is. `late long`: both are. `late normal`: neither is."""
    opioid: str = "none"
    anticoagulant: str = "none"
    catheter: str = "none"
    """`long`: for more than two days, without an order to remove it. `ordered`: for more than two days, with such an
    order. `short`: for less than two days."""
    monitor: str = "on"
    """`off`: no reading in the last 7 hours. `long off`: none in the last 14 hours."""
    influenza: str = "none"
    covid: str = "none"

    @property
    def long_qt(self) -> bool:
        """Whether a QTc is above 500 ms."""
        return self.qt in ("long", "stored last", "stored first", "late long")

    @property
    def late_ecg(self) -> bool:
        """Whether the earlier of two electrocardiograms is stored last."""
        return self.qt in ("stored last", "stored first", "late long", "late normal")


def deal(dice: Dice, settings: Sequence[str]) -> list[Features]:
    """The features of one patient for each setting (`_courses.SETTINGS`)."""
    dealt: list[dict[str, str]] = [{} for _ in settings]
    for name, shares in _SHARES.items():
        places = [n for n, setting in enumerate(settings) if setting in _CONCERNS.get(name, (setting,))]
        _spread(dice, dealt, places, name, shares)
    _spread(dice, dealt, [n for n, one in enumerate(dealt) if one.get("tumour") == "yes"], "ct", _STAGING)
    return [Features(**one) for one in dealt]


def _spread(
    dice: Dice, dealt: list[dict[str, str]], places: list[int], name: str, shares: Sequence[tuple[str, float]]
) -> None:
    """Assign the kinds of one feature to the patients at `places`. Patients left over by rounding get the last kind."""
    kinds = [kind for kind, share in shares for _ in range(round(share * len(places)))]
    kinds = (kinds + [shares[-1][0]] * len(places))[: len(places)]
    for place, kind in zip(places, dice.shuffled(kinds), strict=True):
        dealt[place][name] = kind
