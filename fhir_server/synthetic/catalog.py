"""What is measured: laboratory tests and vital signs, with the middle and spread of healthy adults.

The codes are the hospital's own (as in the recordings: `K`, `GLU`); reference ranges are those of common adult
laboratory handbooks, rounded.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Test:
    """A test: unit (UCUM), usual value, spread between persons, spread within one, the possible range, decimals."""

    code: str
    unit: str
    usual: float
    between: float
    within: float
    low: float
    high: float
    decimals: int


LABS = {
    test.code: test
    for test in (
        Test("NA", "mmol/L", 139, 2, 1.5, 122, 155, 0),
        Test("K", "mmol/L", 4.1, 0.2, 0.2, 2.2, 6.2, 1),
        Test("CL", "mmol/L", 103, 2, 1.5, 88, 118, 0),
        Test("CO2", "mmol/L", 25, 1.5, 1.2, 12, 38, 0),
        Test("BUN", "mg/dL", 14, 3, 2, 4, 110, 0),
        Test("CREA", "mg/dL", 0.9, 0.12, 0.06, 0.4, 9.5, 2),
        Test("GLU", "mg/dL", 98, 8, 11, 48, 480, 0),
        Test("CA", "mg/dL", 9.3, 0.25, 0.2, 6.8, 12.0, 1),
        Test("MG", "mg/dL", 2.1, 0.1, 0.1, 0.5, 3.4, 1),
        Test("PHOS", "mg/dL", 3.5, 0.4, 0.3, 1.2, 7.5, 1),
        Test("A1C", "%", 5.3, 0.2, 0.1, 4.4, 13.5, 1),
        Test("WBC", "10*3/uL", 7.0, 1.2, 0.9, 1.5, 32.0, 1),
        Test("HGB", "g/dL", 14.8, 0.9, 0.3, 6.1, 18.5, 1),
        Test("PLT", "10*3/uL", 245, 45, 18, 35, 690, 0),
        Test("ALT", "U/L", 24, 7, 4, 6, 420, 0),
        Test("AST", "U/L", 23, 6, 4, 7, 460, 0),
        Test("ALP", "U/L", 74, 16, 6, 28, 420, 0),
        Test("TBIL", "mg/dL", 0.6, 0.15, 0.1, 0.1, 12.0, 1),
        Test("ALB", "g/dL", 4.1, 0.25, 0.1, 1.8, 5.2, 1),
        Test("TP", "g/dL", 7.0, 0.35, 0.2, 4.2, 9.4, 1),
        Test("LDL", "mg/dL", 108, 22, 9, 32, 235, 0),
        Test("HDL", "mg/dL", 52, 10, 3, 24, 98, 0),
        Test("TRIG", "mg/dL", 115, 30, 18, 42, 480, 0),
        Test("TSH", "m[IU]/L", 2.0, 0.6, 0.3, 0.05, 28.0, 2),
        Test("INR", "{INR}", 1.0, 0.04, 0.04, 0.8, 5.2, 1),
        Test("CRP", "mg/L", 2.5, 1.0, 0.8, 0.2, 260.0, 1),
        Test("LACT", "mmol/L", 1.1, 0.2, 0.2, 0.4, 8.5, 1),
        Test("BNP", "pg/mL", 42, 18, 12, 5, 3400, 0),
    )
}
DERIVED = {
    "HCT": Test("HCT", "%", 41, 0, 0, 18, 56, 1),
    "CHOL": Test("CHOL", "mg/dL", 182, 0, 0, 80, 420, 0),
}
"""What is worked out from other tests: haematocrit from haemoglobin, total cholesterol from its parts."""

VITALS = {
    test.code: test
    for test in (
        Test("HR", "/min", 74, 8, 6, 42, 148, 0),
        Test("RR", "/min", 16, 1, 1.2, 9, 34, 0),
        Test("SPO2", "%", 97, 0.8, 0.8, 84, 100, 0),
        Test("TEMP", "Cel", 36.8, 0.1, 0.2, 35.2, 40.3, 1),
        Test("SBP", "mm[Hg]", 122, 9, 7, 82, 208, 0),
        Test("DBP", "mm[Hg]", 75, 6, 5, 44, 118, 0),
        Test("WT", "kg", 78, 13, 0.6, 42, 165, 1),
    )
}

BASIC = ("NA", "K", "CL", "CO2", "BUN", "CREA", "GLU", "CA")
COUNT = ("WBC", "HGB", "PLT")
LIVER = ("ALT", "AST", "ALP", "TBIL", "ALB", "TP")
LIPIDS = ("LDL", "HDL", "TRIG")
ROUND = ("HR", "RR", "SPO2", "TEMP", "SBP", "DBP")
