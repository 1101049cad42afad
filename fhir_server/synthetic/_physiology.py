"""Correlated values: the tests depend on a few hidden states, as in a body.

A patient has a level of each state (bell-shaped, mean 0, standard deviation about 1). From one draw to the next, a
state moves around its level and keeps most of its deviation. The value of a test is the sum of its usual value, the
weighted states, the shifts of the patient's problems, and noise. So sodium is correlated with chloride, potassium and
urea with creatinine, the liver tests with each other, and the red cell tests with each other. docs/data-card.md has
the correlations. Only the four basic operations are used, which give the same digits on every machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fhir_server.synthetic._catalog import LABS, TESTS, VITALS
from fhir_server.synthetic.dice import Dice

STATES = ("volume", "kidney", "acid", "marrow", "inflammation", "liver", "lipids", "heart", "stress")
KEPT, MOVED = 0.8, 0.45
"""The share of a state's deviation that remains at the next draw, and the standard deviation of its random change."""
WEIGHTS: dict[str, tuple[tuple[str, float], ...]] = {
    "NA": (("volume", 1.9),),
    "CL": (("volume", 1.6), ("acid", 1.0)),
    "CO2": (("acid", -1.5),),
    "BUN": (("kidney", 3.4), ("volume", 1.2)),
    "CREA": (("kidney", 0.16),),
    "GLU": (("stress", 16.0),),
    "CA": (("liver", -0.12),),
    "PHOS": (("kidney", 0.3),),
    "WBC": (("inflammation", 1.3), ("stress", 0.5)),
    "HGB": (("marrow", 1.1), ("kidney", -0.2)),
    "PLT": (("inflammation", 24.0), ("marrow", -12.0)),
    "ALT": (("liver", 7.0),),
    "AST": (("liver", 6.5), ("inflammation", 1.0)),
    "ALP": (("liver", 10.0),),
    "TBIL": (("liver", 0.13),),
    "ALB": (("liver", -0.14), ("inflammation", -0.16)),
    "TP": (("liver", -0.15), ("inflammation", 0.1)),
    "LDL": (("lipids", 22.0),),
    "HDL": (("lipids", -6.0),),
    "TRIG": (("lipids", 34.0),),
    "TSH": (("stress", 0.1),),
    "INR": (("liver", 0.03),),
    "CRP": (("inflammation", 1.2),),
    "LACT": (("acid", 0.2), ("stress", 0.1)),
    "BNP": (("heart", 20.0), ("kidney", 6.0)),
    "HEARTRATE": (("stress", 4.5), ("inflammation", 2.0), ("heart", 2.0)),
    "RR": (("stress", 0.8), ("heart", 0.5)),
    "SPO2": (("heart", -0.6),),
    "TEMP": (("inflammation", 0.13),),
    "SBP": (("volume", 5.0), ("stress", 5.0)),
    "DBP": (("volume", 3.0), ("stress", 3.0)),
}
NOISE = 0.6
"""The share of a test's spread within one person (`Test.within`) that no state explains."""
HAEMATOCRIT, RED_CELLS = (2.95, 0.9), (0.335, 0.12)
"""Haematocrit in % and red cells in 10*6/uL, each per g/dL of haemoglobin, and the noise of each."""
RETAINED = 0.4
"""Potassium, mmol/L, added for each mg/dL of creatinine above its usual value."""
CONSUMED = 0.005
"""Albumin, g/dL, subtracted for each mg/L of C-reactive protein."""


class Body:
    """One patient's states, levels and draws. Call `move` and `draw` in the order of time."""

    def __init__(self, dice: Dice, shifts: Iterable[Mapping[str, float]], gender: str) -> None:
        self._dice = dice
        self._levels = {state: 0.8 * dice.bell() for state in STATES}
        self._now = dict(self._levels)
        self._own = {code: test.usual + 0.6 * test.between * dice.bell() for code, test in LABS.items()}
        self._own.update({code: test.usual + 0.6 * test.between * dice.bell() for code, test in VITALS.items()})
        for shift in shifts:
            for code, value in shift.items():
                self._own[code] += value
        if gender == "female":
            for code in ("HGB", "CREA", "WT", "HT"):
                self._own[code] *= 0.9 if code != "HT" else 0.94

    def move(self) -> None:
        """Moves the states to the next draw."""
        bell = self._dice.bell
        for state, level in self._levels.items():
            self._now[state] = level + KEPT * (self._now[state] - level) + MOVED * bell()

    def draw(
        self, codes: Iterable[str], illness: float = 0.0, acute: Mapping[str, float] | None = None
    ) -> dict[str, float]:
        """The values of some tests and of the tests calculated from them. `illness`, 0 to 1, scales `acute` shifts."""
        bell, now = self._dice.bell, self._now
        values: dict[str, float] = {}
        for code in codes:
            test = TESTS[code]
            value = self._own[code] + NOISE * test.within * bell()
            for state, weight in WEIGHTS.get(code, ()):
                value += weight * now[state]
            if acute:
                value += illness * acute.get(code, 0.0)
            values[code] = min(max(value, test.low), test.high)
        if "K" in values:
            values["K"] += RETAINED * (values["CREA"] - TESTS["CREA"].usual)
        if "CRP" in values and "ALB" in values:
            values["ALB"] = max(TESTS["ALB"].low, values["ALB"] - CONSUMED * values["CRP"])
        if "HGB" in values:
            haemoglobin = values["HGB"]
            values["HCT"] = HAEMATOCRIT[0] * haemoglobin + HAEMATOCRIT[1] * bell()
            values["RBC"] = RED_CELLS[0] * haemoglobin + RED_CELLS[1] * bell()
        if "LDL" in values:
            values["CHOL"] = values["LDL"] + values["HDL"] + values["TRIG"] / 5
        if "CO2" in values:
            values["AGAP"] = max(0.0, values["NA"] - values["CL"] - values["CO2"])
        return values
