"""The tables of the clinical rules: drugs for each problem, doses, contraindications; ages, sexes and units.

They are written from common handbooks, independently of the generator's tables, so that they can reveal its mistakes.
"""

from __future__ import annotations

_OPERATED, _BOWEL = ("K35", "M17.11", "K80", "C64", "K40"), ("K21", "K50", "K52", "K85", "K92")
TREATS: dict[str, tuple[str, ...]] = {
    "metformin": ("E11",),
    "sitagliptin": ("E11",),
    "insulin": ("E11",),
    "glucose 50": ("E11",),
    "lisinopril": ("I10", "I50", "I21"),
    "losartan": ("I10", "I50"),
    "amlodipine": ("I10",),
    "hydrochlorothiazide": ("I10",),
    "atorvastatin": ("E78", "I25", "I21"),
    "rosuvastatin": ("E78", "I25"),
    "furosemide": ("I50",),
    "metoprolol": ("I50", "I21", "I48", "I10"),
    "apixaban": ("I48",),
    "warfarin": ("I48",),
    "aspirin": ("I25", "I21"),
    "clopidogrel": ("I25", "I21"),
    "omeprazole": ("K21", "K92"),
    "pantoprazole": ("K21", "K92"),
    "levothyroxine": ("E03",),
    "ferrous": ("D50",),
    "sertraline": ("F32",),
    "mirtazapine": ("F32",),
    "quetiapine": ("F31", "F20"),
    "haloperidol": ("F05", "F20"),
    "gabapentin": ("G62",),
    "tamsulosin": ("N40",),
    "tiotropium": ("J44",),
    "albuterol": ("J44", "J45"),
    "prednisone": ("J44", "J45"),
    "thiamine": ("F10",),
    "mesalamine": ("K50", "K51"),
    "ceftriaxone": ("J18", "N39", "K35", "A41"),
    "azithromycin": ("J18", "J44"),
    "vancomycin": ("A41", "L03"),
    "piperacillin": ("A41",),
    "cefepime": ("A41", "J18"),
    "metronidazole": ("K35",),
    "norepinephrine": ("A41",),
    **dict.fromkeys(("docusate", "sennosides", "polyethylene glycol", "bisacodyl"), (*_OPERATED, "D50", "G89", "K59")),
    "simethicone": (*_OPERATED, *_BOWEL),
    "calcium carbonate": _BOWEL,
    "guaifenesin": ("J18", "J44"),
    "lidocaine": (*_OPERATED, "M17", "M54"),
    "melatonin": ("F32", "F10", "I50", "A41", "G47"),
}
"""By ingredient: the problems (beginnings of ICD-10-CM codes) of which one must be active when it is ordered."""
EXEMPT: dict[str, str] = {
    "acetaminophen": "analgesic",
    "ibuprofen": "analgesic",
    "oxycodone": "analgesic",
    "hydromorphone": "analgesic",
    "morphine": "analgesic",
    "fentanyl": "analgesic",
    "naloxone": "antidote next to an opioid",
    "ondansetron": "antiemetic",
    "prochlorperazine": "antiemetic",
    "heparin": "prophylaxis of thrombosis",
    "enoxaparin": "prophylaxis of thrombosis, or treatment of an infarction",
    "sodium chloride": "fluid",
    "potassium chloride": "replaces what a result shows to be low",
    "magnesium sulfate": "replaces what a result shows to be low",
    "iohexol": "contrast",
    "covid-19 vac": "vaccine",
}
"""What anybody may be given, and why."""
PERIOPERATIVE = {"cefazolin": ("L03",)}
"""What treats these, and is also given within a day of an operation."""
OPERATIONS = ("27447", "47562", "50543", "49650", "44970")
"""CPT codes of operations."""
DOSES: dict[str, tuple[str, float, float, float]] = {
    "metformin": ("mg", 500, 1000, 2550),
    "sitagliptin": ("mg", 25, 100, 100),
    "insulin": ("[iU]", 1, 100, 200),
    "lisinopril": ("mg", 2.5, 40, 40),
    "losartan": ("mg", 25, 100, 100),
    "amlodipine": ("mg", 2.5, 10, 10),
    "hydrochlorothiazide": ("mg", 12.5, 50, 50),
    "atorvastatin": ("mg", 10, 80, 80),
    "rosuvastatin": ("mg", 5, 40, 40),
    "furosemide": ("mg", 20, 80, 240),
    "metoprolol": ("mg", 25, 200, 400),
    "apixaban": ("mg", 2.5, 10, 20),
    "warfarin": ("mg", 1, 10, 10),
    "aspirin": ("mg", 81, 325, 650),
    "clopidogrel": ("mg", 75, 300, 300),
    "omeprazole": ("mg", 20, 40, 80),
    "pantoprazole": ("mg", 20, 80, 160),
    "levothyroxine": ("ug", 12.5, 300, 300),
    "ferrous": ("mg", 325, 325, 975),
    "sertraline": ("mg", 25, 200, 200),
    "mirtazapine": ("mg", 7.5, 45, 45),
    "quetiapine": ("mg", 25, 400, 800),
    "haloperidol": ("mg", 0.5, 10, 20),
    "gabapentin": ("mg", 100, 1200, 3600),
    "tamsulosin": ("mg", 0.4, 0.8, 0.8),
    "tiotropium": ("ug", 18, 18, 18),
    "albuterol": ("mg", 1.25, 5, 20),
    "prednisone": ("mg", 5, 80, 80),
    "thiamine": ("mg", 50, 500, 1500),
    "mesalamine": ("mg", 800, 4800, 4800),
    "ceftriaxone": ("g", 1, 2, 4),
    "azithromycin": ("mg", 250, 500, 500),
    "vancomycin": ("g", 0.5, 2, 4),
    "piperacillin": ("g", 2.25, 4.5, 18),
    "cefepime": ("g", 1, 2, 6),
    "cefazolin": ("g", 1, 2, 8),
    "metronidazole": ("mg", 250, 750, 2000),
    "norepinephrine": ("mg", 4, 16, 32),
    "heparin": ("[iU]", 5000, 7500, 22500),
    "enoxaparin 80": ("mg", 80, 80, 160),
    "enoxaparin": ("mg", 30, 40, 80),
    "acetaminophen": ("mg", 325, 1000, 4000),
    "ibuprofen": ("mg", 200, 800, 2400),
    "oxycodone": ("mg", 2.5, 15, 60),
    "hydromorphone": ("mg", 0.2, 2, 12),
    "morphine": ("mg", 15, 60, 120),
    "fentanyl": ("ug/h", 12, 100, 100),
    "naloxone": ("mg", 4, 4, 8),
    "ondansetron": ("mg", 4, 8, 24),
    "prochlorperazine": ("mg", 5, 10, 40),
    "potassium chloride": ("meq", 10, 40, 80),
    "magnesium sulfate": ("g", 1, 4, 8),
}
"""By ingredient: UCUM unit, least and most of one dose, most of a day."""
KIDNEY: dict[str, tuple[int, float]] = {
    "metformin": (30, 0),
    "enoxaparin 80": (30, 80),
    "enoxaparin": (30, 30),
    "gabapentin": (30, 700),
    "ibuprofen": (30, 0),
    "morphine": (30, 0),
    "vancomycin": (30, 1),
    "piperacillin": (20, 9),
    "cefepime": (30, 2),
    "cefazolin": (30, 2),
    "rosuvastatin": (30, 10),
    "hydrochlorothiazide": (30, 0),
}
"""By ingredient: below this estimated filtration rate (mL/min per 1.73 m2) no more than this in a day."""
CONFLICTS: dict[str, tuple[str, ...]] = {
    "penicillin g": ("piperacillin", "ampicillin", "amoxicillin"),
    "aspirin": ("aspirin", "ibuprofen"),
    "ibuprofen": ("aspirin", "ibuprofen"),
    "codeine": ("codeine", "morphine", "oxycodone", "hydrocodone", "hydromorphone"),
    "sulfamethoxazole": ("sulfamethoxazole",),
    "lisinopril": ("lisinopril",),
}
"""By allergen: the drugs that must not be ordered."""
MALE = ("N40", "49650")
"""Beginnings of codes of problems and procedures of men alone (the repair: of the hospital's own selection)."""
YOUNGEST: dict[str, int] = {
    "I50": 45,
    "I48": 45,
    "J44": 40,
    "N18": 40,
    "I25": 45,
    "I21": 40,
    "N40": 45,
    "M17": 45,
    "C64": 30,
    "27447": 50,
    "50543": 30,
    "93458": 40,
}
"""By beginning of a code: the youngest age, in years, at which it is credible."""
RESISTANT: dict[str, tuple[str, ...]] = {
    "KLEBSIELLA PNEUMONIAE": ("AMPICILLIN",),
    "METHICILLIN RESISTANT STAPHYLOCOCCUS AUREUS": ("OXACILLIN",),
}
"""By organism: what it never is susceptible to."""
GRAM_POSITIVE = ("STAPHYLOCOCCUS", "STREPTOCOCCUS", "METHICILLIN RESISTANT")
UNTESTED = {True: ("CIPROFLOXACIN", "MEROPENEM"), False: ("VANCOMYCIN", "OXACILLIN", "ERYTHROMYCIN")}
"""What no laboratory tests gram-positive (True) and gram-negative organisms against."""
UCUM = {
    *("mmol/L", "mg/dL", "%", "10*3/uL", "10*6/uL", "g/dL", "U/L", "m[IU]/L", "ng/dL", "{INR}", "mg/L", "pg/mL"),
    *("umol/L", "meq/L", "mEq/L", "mmol/mol", "/min", "Cel", "mm[Hg]", "kg", "cm", "ms", "mL"),
}
"""The units of results and vital signs."""
OUTPATIENT_WORDS = ("hallway", "hospital day", "ward", "intensive", "nursed")
"""What no note of an office says."""
CRITICAL: dict[str, tuple[float, float]] = {
    "K": (3.0, 6.0),
    "MG": (1.0, 4.7),
    "GLU": (50, 450),
    "NA": (120, 160),
    "CA": (6.5, 13.0),
    "HGB": (7.0, 20.0),
    "LACT": (0, 4.0),
    "INR": (0, 5.0),
}
"""By test: a result below the first or above the second is critical, in the unit of the published codes."""
SATURATION = 88
"""A saturation, in %, below which oxygen is given."""
MONITORED: dict[str, tuple[str, int, float, float]] = {
    "warfarin": ("INR", 90, 1.7, 3.5),
    "levothyroxine": ("TSH", 1200, 0.2, 6.0),
}
"""By drug: the test that follows its effect, the most days between two results, and the limits of the median."""
ALONE: tuple[tuple[str, ...], ...] = (
    ("omeprazole", "pantoprazole", "esomeprazole", "lansoprazole"),
    ("lisinopril", "losartan", "enalapril", "valsartan"),
    ("atorvastatin", "rosuvastatin", "simvastatin"),
    ("furosemide", "torsemide", "bumetanide"),
    ("metoprolol", "bisoprolol", "carvedilol"),
    ("apixaban", "rivaroxaban", "warfarin"),
    ("sertraline", "citalopram", "escitalopram", "fluoxetine"),
    ("ibuprofen", "naproxen"),
)
"""Drugs of one group, of which a patient takes one at a time. Two anticoagulants by injection are what some tasks look
for, and an opioid by mouth may be taken with one by injection."""
REPEATABLE = ("sodium chloride", "covid-19 vac")
"""Drugs of which several orders may run at the same time."""
REPLACES = {"K": "potassium chloride", "MG": "magnesium sulfate"}
"""By test: the drug that replaces a low value."""
_ANTIBIOTICS = ("ceftriaxone", "azithromycin", "vancomycin", "piperacillin", "cefepime", "cefazolin", "metronidazole")
_INFECTIONS = ("pneumonia", "urinary tract", "sepsis", "cellulitis", "unspecified acute appendicitis")
SHOWN: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_INFECTIONS, _ANTIBIOTICS),
    "non-st elevation": ("heparin", "enoxaparin", "apixaban", "warfarin"),
}
"""By beginning of a stay's reason: the drugs of which one must be ordered in it."""
