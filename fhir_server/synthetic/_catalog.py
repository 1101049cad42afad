"""Laboratory tests and vital signs, with the mean and spread of healthy adults.

The codes are local to the hospital (`K`, `GLU`), as in the recordings of the benchmark's server. Reference ranges are
from common adult laboratory handbooks, rounded.
"""

from __future__ import annotations

from dataclasses import dataclass

Range = tuple[float | None, float | None]


@dataclass(frozen=True, slots=True)
class Test:
    """A test. `unit` is in UCUM; all values are in this unit.

    `usual` is the mean of healthy adults. `between` is the spread between persons, `within` the spread within one
    person. No value is below `low` or above `high`. `normal` is the laboratory's reference range, both ends included;
    `women` is set if the range for women differs. The laboratory calls the doctor about a value below or above
    `critical`.
    """

    code: str
    unit: str
    usual: float
    between: float
    within: float
    low: float
    high: float
    decimals: int
    normal: Range = (None, None)
    women: Range | None = None
    critical: Range = (None, None)

    def is_critical(self, value: float) -> bool:
        low, high = self.critical
        return (low is not None and value < low) or (high is not None and value > high)

    def reference(self, gender: str) -> Range:
        """The reference range for a gender."""
        return self.women if self.women and gender == "female" else self.normal


LABS = {
    test.code: test
    for test in (
        Test("NA", "mmol/L", 139, 2, 1.5, 122, 155, 0, (135, 145), critical=(120, 160)),
        Test("K", "mmol/L", 4.15, 0.4, 0.5, 2.2, 6.2, 1, (3.5, 5.1), critical=(3.0, 6.0)),
        Test("CL", "mmol/L", 103, 2, 1.5, 88, 118, 0, (98, 107)),
        Test("CO2", "mmol/L", 25, 1.5, 1.2, 12, 38, 0, (22, 29)),
        Test("BUN", "mg/dL", 14, 3, 2, 4, 110, 0, (7, 20)),
        Test("CREA", "mg/dL", 0.9, 0.15, 0.06, 0.4, 9.5, 2, (0.7, 1.3), (0.5, 1.1)),
        Test("GLU", "mg/dL", 98, 8, 18, 48, 480, 0, (70, 100), critical=(50, 450)),
        Test("CA", "mg/dL", 9.3, 0.25, 0.2, 6.8, 12.0, 1, (8.5, 10.3), critical=(6.5, 13.0)),
        Test("MG", "mg/dL", 2.15, 0.25, 0.25, 0.5, 3.4, 1, (1.6, 2.6), critical=(1.0, 4.7)),
        Test("PHOS", "mg/dL", 3.5, 0.4, 0.3, 1.2, 7.5, 1, (2.5, 4.5)),
        Test("A1C", "%", 5.3, 0.2, 0.3, 4.4, 13.5, 1, (4.0, 5.6)),
        Test("WBC", "10*3/uL", 7.0, 1.2, 0.9, 1.5, 32.0, 1, (4.0, 10.5)),
        Test("HGB", "g/dL", 14.6, 0.8, 0.3, 6.1, 18.5, 1, (13.5, 17.5), (12.0, 15.5), (7.0, 20.0)),
        Test("PLT", "10*3/uL", 245, 45, 18, 35, 690, 0, (150, 400)),
        Test("ALT", "U/L", 24, 7, 4, 6, 420, 0, (7, 45)),
        Test("AST", "U/L", 23, 6, 4, 7, 460, 0, (8, 40)),
        Test("ALP", "U/L", 74, 16, 6, 28, 420, 0, (40, 130)),
        Test("TBIL", "mg/dL", 0.6, 0.15, 0.1, 0.1, 12.0, 1, (0.1, 1.2)),
        Test("ALB", "g/dL", 4.1, 0.25, 0.1, 1.8, 5.2, 1, (3.5, 5.0)),
        Test("TP", "g/dL", 7.0, 0.35, 0.2, 4.2, 9.4, 1, (6.0, 8.3)),
        Test("LDL", "mg/dL", 108, 22, 9, 32, 235, 0, (None, 130)),
        Test("HDL", "mg/dL", 52, 10, 3, 24, 98, 0, (40, None)),
        Test("TRIG", "mg/dL", 115, 30, 18, 42, 480, 0, (None, 150)),
        Test("TSH", "m[IU]/L", 2.0, 0.6, 0.3, 0.05, 38.0, 2, (0.4, 4.5)),
        Test("FT4", "ng/dL", 1.2, 0.12, 0.06, 0.2, 4.0, 1, (0.8, 1.8)),
        Test("INR", "{INR}", 1.0, 0.04, 0.04, 0.8, 5.2, 1, (0.8, 1.2), critical=(None, 5.0)),
        Test("CRP", "mg/L", 2.5, 1.0, 0.8, 0.2, 260.0, 1, (None, 5.0)),
        Test("LACT", "mmol/L", 1.1, 0.2, 0.2, 0.4, 8.5, 1, (0.5, 2.0), critical=(None, 4.0)),
        Test("BNP", "pg/mL", 42, 18, 12, 5, 3400, 0, (None, 100)),
    )
}
DERIVED = {
    test.code: test
    for test in (
        Test("HCT", "%", 41, 0, 0, 16, 60, 1, (40.0, 52.0), (36.0, 47.0)),
        Test("RBC", "10*6/uL", 4.8, 0, 0, 1.8, 7.4, 2, (4.4, 5.9), (3.8, 5.2)),
        Test("CHOL", "mg/dL", 182, 0, 0, 80, 440, 0, (None, 200)),
        Test("AGAP", "mmol/L", 11, 0, 0, 0, 40, 0, (5, 16)),
    )
}
"""Tests that are calculated from other tests of the same sample."""

VITALS = {
    test.code: test
    for test in (
        Test("HEARTRATE", "/min", 74, 8, 6, 42, 148, 0),
        Test("RR", "/min", 16, 1, 1.2, 9, 34, 0),
        Test("SPO2", "%", 97, 0.8, 0.8, 76, 100, 0),
        Test("TEMP", "Cel", 36.8, 0.1, 0.2, 35.2, 40.3, 1),
        Test("SBP", "mm[Hg]", 122, 9, 7, 82, 208, 0),
        Test("DBP", "mm[Hg]", 75, 6, 5, 44, 118, 0),
        Test("WT", "kg", 78, 13, 0.6, 42, 165, 1),
        Test("HT", "cm", 170, 7, 0.2, 142, 206, 0),
        Test("QTCINTERVAL", "ms", 425, 15, 8, 340, 620, 0),
    )
}
TESTS = {**LABS, **VITALS, **DERIVED}

CALLED = {
    **dict.fromkeys(("MG", "PHOS"), "magnesium and phosphate"),
    **dict.fromkeys(("HGB", "PLT"), "blood count"),
    "LACT": "lactate",
    "INR": "INR",
}
"""How the laboratory names the panel of a critical result; others belong to `CHEMISTRY`."""
CHEMISTRY = "sodium, potassium, calcium and glucose"

BASIC = ("NA", "K", "CL", "CO2", "BUN", "CREA", "GLU", "CA")
COUNT = ("WBC", "HGB", "PLT")
LIVER = ("ALT", "AST", "ALP", "TBIL", "ALB", "TP")
LIPIDS = ("LDL", "HDL", "TRIG")
SIGNS = ("RR", "SPO2", "TEMP", "SBP", "DBP")
ROUND = ("HEARTRATE", *SIGNS)
