"""Chronic problems with the drugs that treat them, and the reasons for stays.

ICD-10-CM and CPT codes are facts of those systems. Shifts of tests are in the unit of the test. They are plausible
values without a source.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A problem: ICD-10-CM code and text, share of adults, minimum age, shifts of tests.

    `drugs`: for each drug that treats the problem, the keys of `_drugs.DRUGS` to choose from, in order of preference.
    `sex`: "" for both.
    """

    code: str
    text: str
    share: float
    age: int = 18
    shifts: dict[str, float] = field(default_factory=dict)
    drugs: tuple[tuple[str, ...], ...] = ()
    sex: str = ""


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason for a stay. `drugs` as in `Diagnosis`.

    `icu`: share of stays with intensive care. `days`: minimum and maximum length. `procedure`: CPT code and text of the
    operation or examination. `specimens`: cultured on arrival. `needs`: the code of a problem that must be on the
    patient's list. `complaint`, `finding` and `plan` are texts of the first note, `course` is the plan in later notes
    until an operation. `planned`: the stay begins in the morning, without the emergency department.
    """

    code: str
    text: str
    complaint: str
    finding: str
    plan: str
    course: str
    shifts: dict[str, float]
    age: int = 18
    service: str = "Medicine"
    icu: float = 0.0
    days: tuple[int, int] = (3, 7)
    drugs: tuple[tuple[str, ...], ...] = ()
    procedure: tuple[str, str] | None = None
    specimens: tuple[str, ...] = ()
    needs: str = ""
    sex: str = ""
    planned: bool = False


@dataclass(frozen=True, slots=True)
class Complication:
    """Something that goes wrong during a stay, with its shifts of tests.

    `share` is the share of all stays that have it, `shares` the shares of stays for some reasons (ICD-10-CM codes).
    """

    name: str
    shifts: dict[str, float]
    share: float
    shares: dict[str, float] = field(default_factory=dict)


COMPLICATIONS = (
    Complication("low sodium", {"NA": -8.5, "CL": -7}, 0.14, {"I50.33": 0.3, "J18.9": 0.25}),
    Complication("low platelets", {"PLT": -130}, 0.15, {"A41.9": 0.45}),
    Complication(
        "liver injury",
        {"ALT": 165, "AST": 190, "ALP": 45, "TBIL": 1.3, "INR": 0.3},
        0.06,
        {"A41.9": 0.2, "I50.33": 0.12, "K85.90": 0.2},
    ),
    Complication("blood loss", {"HGB": -2.8, "HEARTRATE": 4}, 0.2),
    Complication("bile stasis", {"TBIL": 2.9, "ALP": 130, "ALT": 70, "AST": 45}, 0.02, {"K85.90": 0.3, "K80.20": 0.25}),
    Complication(
        "lack of oxygen",
        {"SPO2": -7.5, "RR": 4},
        0.02,
        {"J18.9": 0.3, "J44.1": 0.4, "I50.33": 0.25, "A41.9": 0.2},
    ),
    Complication(
        "shock",
        {"LACT": 3.4, "CO2": -3, "SBP": -12, "HEARTRATE": 8},
        0.03,
        {"A41.9": 0.4, "K92.2": 0.2, "I21.4": 0.12},
    ),
)
"""What every ward sees. The shares are set so that abnormal results are about as frequent as published
(`tools/hospital_tails.py`)."""
PLANNED = 0.3
"""Complications of planned stays are less frequent by this factor."""

CHRONIC = (
    Diagnosis(
        "I10",
        "Essential (primary) hypertension",
        0.45,
        40,
        {"SBP": 14, "DBP": 7},
        (("lisinopril", "losartan", "amlodipine"),),
    ),
    Diagnosis("E78.5", "Hyperlipidemia, unspecified", 0.4, 40, {"LDL": 32, "TRIG": 55}, (("atorvastatin",),)),
    Diagnosis("N18.31", "Chronic kidney disease, stage 3a", 0.14, 55, {"K": 0.4, "BUN": 13, "PHOS": 0.4, "HGB": -1}),
    Diagnosis(
        "I50.9",
        "Heart failure, unspecified",
        0.13,
        60,
        {"BNP": 540, "NA": -2, "CL": -2},
        (("furosemide",), ("metoprolol",)),
    ),
    Diagnosis("I48.91", "Unspecified atrial fibrillation", 0.12, 60, {"HEARTRATE": 5}, (("apixaban",),)),
    Diagnosis(
        "J44.9",
        "Chronic obstructive pulmonary disease, unspecified",
        0.12,
        50,
        {"SPO2": -3, "CO2": 3, "RR": 2},
        (("tiotropium",), ("albuterol",)),
    ),
    Diagnosis("E03.9", "Hypothyroidism, unspecified", 0.1, 25, {}, (("levothyroxine",),)),
    Diagnosis(
        "K21.9", "Gastro-esophageal reflux disease without esophagitis", 0.2, 18, {"MG": -0.1}, (("omeprazole",),)
    ),
    Diagnosis("F32.A", "Depression, unspecified", 0.14, 18, {}, (("sertraline", "mirtazapine"),)),
    Diagnosis("D50.9", "Iron deficiency anemia, unspecified", 0.12, 18, {"HGB": -2.6, "PLT": 50}, (("ferrous",),)),
    Diagnosis("M17.9", "Osteoarthritis of knee, unspecified", 0.2, 50, {}, (("acetaminophen",),)),
    Diagnosis("M54.50", "Low back pain, unspecified", 0.14, 18, {}, (("acetaminophen",),)),
    Diagnosis("E66.9", "Obesity, unspecified", 0.22, 18, {"WT": 24, "TRIG": 30, "HDL": -7}),
    Diagnosis("G62.9", "Polyneuropathy, unspecified", 0.08, 45, {}, (("gabapentin",),)),
    Diagnosis(
        "I25.10",
        "Coronary artery disease of native artery",
        0.14,
        55,
        {},
        (("aspirin", "clopidogrel"), ("atorvastatin",)),
    ),
    Diagnosis(
        "N40.1",
        "Benign prostatic hyperplasia with lower urinary tract symptoms",
        0.25,
        55,
        {},
        (("tamsulosin",),),
        "male",
    ),
)
FIBRILLATION = "I48.91"
"""Its patients take apixaban, or warfarin (`_story.Story.warfarin`)."""
DIABETES = (
    Diagnosis("E11.9", "Type 2 diabetes mellitus without complications", 0.0, drugs=(("metformin", "sitagliptin"),)),
    Diagnosis(
        "E11.65",
        "Type 2 diabetes mellitus with hyperglycemia",
        0.0,
        drugs=(("metformin", "sitagliptin"), ("glargine",)),
    ),
)
"""Well and badly controlled diabetes. The last HbA1c decides between them."""
LOW_MAGNESIUM = Diagnosis("E83.42", "Hypomagnesemia", 0.0)
LOW_POTASSIUM = Diagnosis("E87.6", "Hypokalemia", 0.0)
WASTING = (
    Diagnosis(
        "F10.20",
        "Alcohol dependence, uncomplicated",
        0.0,
        18,
        {"AST": 48, "ALT": 26, "ALB": -0.4, "TBIL": 0.5, "PLT": -60, "INR": 0.1},
        (("thiamine",),),
    ),
    Diagnosis(
        "K50.90",
        "Crohn's disease, unspecified, without complications",
        0.0,
        18,
        {"CRP": 16, "HGB": -1.4},
        (("mesalamine",),),
    ),
    Diagnosis("K52.9", "Noninfective gastroenteritis and colitis, unspecified", 0.0, 18, {"CO2": -3, "CRP": 9}),
)
"""Causes of a low magnesium."""
TUMOUR = Diagnosis("C64.2", "Malignant neoplasm of left kidney, except renal pelvis", 0.0, 40, {"HGB": -0.8})
PAIN = Diagnosis("G89.29", "Other chronic pain", 0.0)
BIPOLAR = Diagnosis("F31.9", "Bipolar disorder, unspecified", 0.0, drugs=(("quetiapine",),))

REASONS = (
    Reason(
        "J18.9",
        "Pneumonia, unspecified organism",
        "cough, fever and shortness of breath for three days",
        "crackles at the right base",
        "intravenous antibiotics, oxygen as needed",
        "antibiotics, by mouth once without fever; breathing exercises",
        {"WBC": 6.5, "CRP": 88, "TEMP": 1.6, "HEARTRATE": 24, "SPO2": -3, "RR": 5},
        icu=0.2,
        days=(4, 8),
        drugs=(("ceftriaxone",), ("azithromycin",)),
        specimens=("BLOOD CULTURE", "SPUTUM"),
    ),
    Reason(
        "N39.0",
        "Urinary tract infection, site not specified",
        "painful urination and flank pain",
        "suprapubic tenderness",
        "intravenous antibiotics until the culture is back",
        "antibiotic by the culture, drink enough",
        {"WBC": 4.0, "CRP": 42, "TEMP": 0.6, "HEARTRATE": 8},
        days=(3, 5),
        drugs=(("ceftriaxone",),),
        specimens=("URINE",),
    ),
    Reason(
        "A41.9",
        "Sepsis, unspecified organism",
        "fever, chills and confusion",
        "warm skin, rapid pulse",
        "broad antibiotics, fluids, lactate again in six hours",
        "antibiotics by the cultures, mobilize",
        {"WBC": 9, "LACT": 1.6, "CRP": 120, "TEMP": 1.6, "HEARTRATE": 28, "SBP": -14, "DBP": -8, "RR": 5, "HGB": -1.2},
        icu=0.65,
        days=(6, 11),
        drugs=(("piperacillin", "cefepime"), ("vancomycin",)),
        specimens=("BLOOD CULTURE", "BLOOD CULTURE", "URINE"),
    ),
    Reason(
        "L03.115",
        "Cellulitis of right lower limb",
        "a red, painful right leg",
        "warm erythema of the right shin",
        "intravenous antibiotics, elevation of the leg",
        "antibiotics, leg up, mark the edge of the redness",
        {"WBC": 4.2, "CRP": 52, "TEMP": 0.5, "HEARTRATE": 6},
        days=(3, 6),
        drugs=(("cefazolin",),),
        specimens=("BLOOD CULTURE",),
    ),
    Reason(
        "N17.9",
        "Acute kidney failure, unspecified",
        "weakness and little urine for two days",
        "dry mucous membranes",
        "fluids, avoid what harms the kidney, creatinine daily",
        "balance fluids, creatinine daily",
        {"CREA": 2.6, "BUN": 24, "CO2": -3, "HGB": -0.6},
        40,
        icu=0.1,
        days=(4, 8),
        specimens=("URINE",),
    ),
    Reason(
        "K85.90",
        "Acute pancreatitis without necrosis or infection",
        "severe upper abdominal pain with vomiting",
        "epigastric tenderness",
        "nothing by mouth, fluids, pain relief",
        "food as pain allows, fluids, pain relief",
        {"WBC": 4, "CA": -0.7, "CRP": 75, "HEARTRATE": 12},
        icu=0.2,
        days=(4, 8),
    ),
    Reason(
        "K92.2",
        "Gastrointestinal hemorrhage, unspecified",
        "black stools and dizziness",
        "pale conjunctivae, soft abdomen",
        "pantoprazole, endoscopy, transfuse below 7 g/dL",
        "watch hemoglobin and stools, pantoprazole",
        {"HGB": -4.2, "BUN": 12, "HEARTRATE": 14, "SBP": -8},
        40,
        icu=0.4,
        days=(4, 6),
        drugs=(("pantoprazole",),),
        procedure=("43239", "Upper gastrointestinal endoscopy with biopsy"),
    ),
    Reason(
        "I50.33",
        "Acute on chronic diastolic heart failure",
        "shortness of breath and swollen legs",
        "edema to the knees, crackles on both sides",
        "intravenous diuretics, daily weight, low salt",
        "diuretics by weight, low salt",
        {"BNP": 720, "SPO2": -3, "NA": -3, "CL": -3, "HEARTRATE": 8, "RR": 4, "WT": 4},
        60,
        "Cardiology",
        0.15,
        (4, 9),
        (("furosemide iv",),),
        ("93306", "Echocardiography, transthoracic, complete"),
        needs="I50.9",
    ),
    Reason(
        "J44.1",
        "Chronic obstructive pulmonary disease with (acute) exacerbation",
        "worsening shortness of breath and wheezing",
        "wheezes on both sides",
        "inhaled bronchodilators, prednisone, oxygen as needed",
        "bronchodilators, prednisone for five days, train inhaling",
        {"SPO2": -3, "RR": 5, "HEARTRATE": 8, "CO2": 2},
        50,
        icu=0.15,
        days=(4, 7),
        drugs=(("albuterol",), ("prednisone",)),
        needs="J44.9",
    ),
    Reason(
        "I21.4",
        "Non-ST elevation (NSTEMI) myocardial infarction",
        "chest pressure at rest for two hours",
        "regular rhythm, clear lungs",
        "antiplatelet drug, statin, beta blocker, coronary angiography",
        "antiplatelet drug, statin, beta blocker; mobilize",
        {"HEARTRATE": 8, "BNP": 160, "CRP": 6},
        50,
        "Cardiology",
        0.5,
        (4, 6),
        (("aspirin", "clopidogrel"), ("atorvastatin",), ("metoprolol",)),
        ("93458", "Catheter placement in coronary arteries with left heart catheterization"),
    ),
    Reason(
        "K35.80",
        "Unspecified acute appendicitis",
        "pain in the right lower abdomen since yesterday",
        "tenderness in the right lower quadrant",
        "appendectomy, antibiotics",
        "appendectomy, antibiotics",
        {"WBC": 6, "CRP": 40, "TEMP": 0.6, "HEARTRATE": 8},
        service="Surgery",
        days=(2, 3),
        drugs=(("ceftriaxone",), ("metronidazole",)),
        procedure=("44970", "Laparoscopic appendectomy"),
    ),
    Reason(
        "M17.11",
        "Unilateral primary osteoarthritis, right knee",
        "knee pain in spite of physical therapy",
        "limited flexion of the right knee",
        "total knee arthroplasty, early mobilization",
        "total knee arthroplasty, early mobilization",
        {"HGB": -1.8, "CRP": 30},
        58,
        "Surgery",
        0.0,
        (2, 4),
        procedure=("27447", "Total knee arthroplasty"),
        planned=True,
    ),
    Reason(
        "K80.20",
        "Calculus of gallbladder without cholecystitis without obstruction",
        "repeated pain under the right ribs after meals",
        "soft abdomen",
        "laparoscopic cholecystectomy",
        "laparoscopic cholecystectomy",
        {"CRP": 14},
        30,
        "Surgery",
        0.0,
        (2, 3),
        procedure=("47562", "Laparoscopic cholecystectomy"),
        planned=True,
    ),
    Reason(
        "C64.2",
        TUMOUR.text,
        "a mass of the left kidney found by CT",
        "no flank mass felt",
        "laparoscopic partial nephrectomy, creatinine daily",
        "laparoscopic partial nephrectomy, creatinine daily",
        {"HGB": -1.8, "CREA": 0.2, "CRP": 28},
        40,
        "Surgery",
        0.3,
        (4, 6),
        procedure=("50543", "Laparoscopic partial nephrectomy"),
        needs="C64.2",
        planned=True,
    ),
    Reason(
        "K40.90",
        "Unilateral inguinal hernia, without obstruction or gangrene, not specified as recurrent",
        "a bulge in the right groin",
        "reducible hernia on the right",
        "laparoscopic repair",
        "laparoscopic repair",
        {"CRP": 10},
        30,
        "Surgery",
        0.0,
        (1, 2),
        procedure=("49650", "Laparoscopic repair of inguinal hernia"),
        sex="male",
        planned=True,
    ),
)
INFECTIONS = ("J18.9", "A41.9")
"""Reasons with fever or a rapid pulse on the first day of most stays."""
