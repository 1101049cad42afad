"""What patients have and what they get for it: problems, their usual drugs and procedures, their marks in the labs.

ICD-10-CM, RxNorm and CPT codes are facts of those systems; shifts are in the unit of the test, and plausible, no more.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Drug:
    """An order as it stands in the chart: name, RxNorm code, dose, unit, route, times a day."""

    name: str
    rxnorm: str
    dose: int
    unit: str
    route: str
    daily: int


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A problem of the list: ICD-10-CM code and text, share of adults, youngest age, shifts, drugs by name."""

    code: str
    text: str
    share: float
    age: int = 18
    shifts: dict[str, float] = field(default_factory=dict)
    drugs: tuple[str, ...] = ()


DRUGS = {
    drug.name.split()[0]: drug
    for drug in (
        Drug("metformin 500 MG Oral Tablet", "861007", 500, "mg", "Oral", 2),
        Drug("lisinopril 10 MG Oral Tablet", "314076", 10, "mg", "Oral", 1),
        Drug("amlodipine 5 MG Oral Tablet", "197361", 5, "mg", "Oral", 1),
        Drug("atorvastatin 20 MG Oral Tablet", "617310", 20, "mg", "Oral", 1),
        Drug("furosemide 40 MG Oral Tablet", "313988", 40, "mg", "Oral", 2),
        Drug("omeprazole 20 MG Delayed Release Oral Capsule", "198051", 20, "mg", "Oral", 1),
        Drug("metoprolol succinate 50 MG Extended Release Oral Tablet", "866436", 50, "mg", "Oral", 1),
        Drug("apixaban 5 MG Oral Tablet", "1364445", 5, "mg", "Oral", 2),
        Drug("insulin glargine 100 UNT/ML Injectable Solution", "311041", 16, "U", "Subcutaneous", 1),
        Drug("levothyroxine sodium 0.1 MG Oral Tablet", "892246", 100, "ug", "Oral", 1),
        Drug("ferrous sulfate 325 MG Oral Tablet", "310325", 325, "mg", "Oral", 1),
        Drug("ceftriaxone 1000 MG Injection", "309090", 1, "g", "Intravenous", 1),
        Drug("sertraline 50 MG Oral Tablet", "312941", 50, "mg", "Oral", 1),
        Drug("gabapentin 300 MG Oral Capsule", "310431", 300, "mg", "Oral", 3),
        Drug("acetaminophen 325 MG Oral Tablet", "313782", 650, "mg", "Oral", 4),
        Drug("aspirin 81 MG Oral Tablet", "243670", 81, "mg", "Oral", 1),
    )
}

CHRONIC = (
    Diagnosis("I10", "Essential (primary) hypertension", 0.45, 40, {"SBP": 14, "DBP": 7}, ("lisinopril", "amlodipine")),
    Diagnosis("E78.5", "Hyperlipidemia, unspecified", 0.4, 40, {"LDL": 32, "TRIG": 55}, ("atorvastatin",)),
    Diagnosis("N18.31", "Chronic kidney disease, stage 3a", 0.16, 55, {"CREA": 0.6, "BUN": 13, "PHOS": 0.4, "HGB": -1}),
    Diagnosis("I50.9", "Heart failure, unspecified", 0.13, 60, {"BNP": 540, "NA": -2}, ("furosemide", "metoprolol")),
    Diagnosis("I48.91", "Unspecified atrial fibrillation", 0.12, 60, {"HR": 9}, ("apixaban",)),
    Diagnosis("J44.9", "Chronic obstructive pulmonary disease, unspecified", 0.12, 50, {"SPO2": -3, "CO2": 3, "RR": 2}),
    Diagnosis("E03.9", "Hypothyroidism, unspecified", 0.1, 25, {"TSH": 2.2}, ("levothyroxine",)),
    Diagnosis("K21.9", "Gastro-esophageal reflux disease without esophagitis", 0.2, 18, {"MG": -0.1}, ("omeprazole",)),
    Diagnosis("F32.A", "Depression, unspecified", 0.14, 18, {}, ("sertraline",)),
    Diagnosis("D50.9", "Iron deficiency anemia, unspecified", 0.12, 18, {"HGB": -2.6, "PLT": 50}, ("ferrous",)),
    Diagnosis("M17.9", "Osteoarthritis of knee, unspecified", 0.2, 50, {}, ("acetaminophen",)),
    Diagnosis("M54.50", "Low back pain, unspecified", 0.14, 18, {}, ("acetaminophen",)),
    Diagnosis("E66.9", "Obesity, unspecified", 0.22, 18, {"WT": 24, "TRIG": 30, "HDL": -7}),
    Diagnosis("G62.9", "Polyneuropathy, unspecified", 0.08, 45, {}, ("gabapentin",)),
    Diagnosis("I25.10", "Coronary artery disease of native artery", 0.14, 55, {}, ("aspirin", "atorvastatin")),
)
DIABETES = (
    Diagnosis("E11.9", "Type 2 diabetes mellitus without complications", 0.0, drugs=("metformin",)),
    Diagnosis("E11.65", "Type 2 diabetes mellitus with hyperglycemia", 0.0, drugs=("metformin", "insulin")),
)
"""Well and badly controlled; dealt by the plan, as their A1c is."""
LOW_MAGNESIUM = Diagnosis("E83.42", "Hypomagnesemia", 0.0)
LOW_POTASSIUM = Diagnosis("E87.6", "Hypokalemia", 0.0)
DEFICIENCIES = {LOW_MAGNESIUM.code: "MG", LOW_POTASSIUM.code: "K"}
"""The test whose low level shows the problem."""
WASTING = (
    Diagnosis("F10.20", "Alcohol dependence, uncomplicated", 0.0, 18, {"AST": 48, "ALT": 26, "ALB": -0.4}),
    Diagnosis("K50.90", "Crohn's disease, unspecified, without complications", 0.0, 18, {"CRP": 16, "HGB": -1.4}),
    Diagnosis("K52.9", "Noninfective gastroenteritis and colitis, unspecified", 0.0, 18, {"CO2": -3, "CRP": 9}),
)
"""Causes of magnesium and potassium loss."""

ACUTE = (
    Diagnosis(
        "J18.9",
        "Pneumonia, unspecified organism",
        1,
        18,
        {"WBC": 6.5, "CRP": 88, "TEMP": 0.9, "SPO2": -3, "RR": 4},
        ("ceftriaxone",),
    ),
    Diagnosis(
        "N39.0",
        "Urinary tract infection, site not specified",
        1,
        18,
        {"WBC": 4.0, "CRP": 42, "TEMP": 0.6},
        ("ceftriaxone",),
    ),
    Diagnosis(
        "A41.9",
        "Sepsis, unspecified organism",
        1,
        18,
        {"WBC": 9, "LACT": 1.6, "CRP": 120, "HR": 18, "SBP": -14},
        ("ceftriaxone",),
    ),
    Diagnosis(
        "L03.115", "Cellulitis of right lower limb", 1, 18, {"WBC": 4.2, "CRP": 52, "TEMP": 0.5}, ("ceftriaxone",)
    ),
    Diagnosis("N17.9", "Acute kidney failure, unspecified", 1, 40, {"CREA": 1.3, "BUN": 24, "CO2": -3}),
    Diagnosis("K85.90", "Acute pancreatitis without necrosis or infection", 1, 18, {"WBC": 4, "CA": -0.7, "CRP": 75}),
    Diagnosis("K92.2", "Gastrointestinal hemorrhage, unspecified", 1, 40, {"HGB": -4.2, "BUN": 12, "HR": 12}),
    Diagnosis(
        "I50.33", "Acute on chronic diastolic heart failure", 1, 60, {"BNP": 720, "SPO2": -3, "NA": -3}, ("furosemide",)
    ),
)

PROCEDURES = (
    ("93000", "Electrocardiogram, routine, with interpretation and report", 18),
    ("71046", "Radiologic examination, chest; 2 views", 18),
    ("45378", "Colonoscopy, flexible; diagnostic", 45),
    ("93306", "Echocardiography, transthoracic, complete", 50),
    ("74177", "CT of abdomen and pelvis with contrast material", 30),
    ("47562", "Laparoscopic cholecystectomy", 30),
    ("66984", "Cataract removal with intraocular lens insertion", 62),
    ("27447", "Total knee arthroplasty", 58),
    ("44970", "Laparoscopic appendectomy", 18),
    ("43239", "Upper gastrointestinal endoscopy with biopsy", 30),
)
