"""What happens to patients beside tests: symptoms and services of visits, vaccines, allergies, words of notes.

ICD-10-CM, CPT, CVX, RxNorm and SNOMED CT codes are facts of those systems; the texts of services are short descriptions
of the project's own. Problems and drugs are those of `fhir_server.synthetic.problems`.
"""

from __future__ import annotations

SYMPTOMS = (
    ("R05.9", "Cough, unspecified"),
    ("R51.9", "Headache, unspecified"),
    ("R07.9", "Chest pain, unspecified"),
    ("R42", "Dizziness and giddiness"),
    ("J06.9", "Acute upper respiratory infection, unspecified"),
    ("R21", "Rash and other nonspecific skin eruption"),
    ("R11.0", "Nausea"),
    ("R10.9", "Unspecified abdominal pain"),
    ("R53.83", "Other fatigue"),
    ("R50.9", "Fever, unspecified"),
    ("R60.0", "Localized edema"),
    ("R06.02", "Shortness of breath"),
    ("M25.561", "Pain in right knee"),
    ("G47.00", "Insomnia, unspecified"),
    ("K59.00", "Constipation, unspecified"),
    ("R73.03", "Prediabetes"),
    ("Z00.00", "General adult medical examination without abnormal findings"),
    ("Z79.899", "Other long term (current) drug therapy"),
    ("Z12.11", "Encounter for screening for malignant neoplasm of colon"),
    ("Z91.81", "History of falling"),
)
SERVICES = (
    ("99213", "Office visit, established patient"),
    ("99232", "Hospital care, subsequent day"),
    ("36415", "Venipuncture"),
    ("80053", "Metabolic panel, comprehensive"),
    ("85025", "Blood count with differential"),
    ("80061", "Lipid panel"),
    ("83036", "Hemoglobin A1c"),
    ("83735", "Magnesium"),
    ("84132", "Potassium, serum"),
    ("81001", "Urinalysis with microscopy"),
    ("93000", "Electrocardiogram with report"),
    ("71046", "Chest X-ray, 2 views"),
    ("94640", "Inhalation treatment"),
    ("96374", "Intravenous push"),
    ("97110", "Therapeutic exercise, 15 minutes"),
    ("99284", "Emergency department visit"),
    ("36430", "Transfusion of blood"),
    ("76700", "Ultrasound, abdomen"),
)
PANELS = (
    ("24323-8", "Comprehensive metabolic panel"),
    ("58410-2", "Complete blood count"),
    ("24325-3", "Liver panel"),
    ("24331-1", "Lipid panel"),
)
"""LOINC codes of diagnostic reports and of the requests for them."""
VACCINES = (
    ("140", "Influenza, seasonal, injectable, preservative free"),
    ("208", "COVID-19, mRNA, 30 mcg/0.3 mL"),
    ("33", "Pneumococcal polysaccharide, 23 valent"),
    ("115", "Tdap"),
    ("187", "Zoster recombinant"),
    ("43", "Hepatitis B, adult"),
)
ALLERGENS = (
    ("7980", "penicillin G", "medication"),
    ("1191", "aspirin", "medication"),
    ("2670", "codeine", "medication"),
    ("10180", "sulfamethoxazole", "medication"),
    ("5640", "ibuprofen", "medication"),
    ("29046", "lisinopril", "medication"),
)
REACTIONS = (("271807003", "Rash"), ("126485001", "Urticaria"), ("422587007", "Nausea"), ("267036007", "Dyspnea"))
REASONS = ("Routine follow-up", "Medication review", "New complaint", "Review of results", "Post-discharge visit")
NOTE_OPENINGS = (
    "Seen today, in no distress.",
    "Reports feeling about the same as last time.",
    "Slept poorly, otherwise without complaints.",
    "Here with a family member; history from both.",
    "Ambulating in the hallway, tolerating diet.",
)
NOTE_PLANS = (
    "Continue present medication, recheck labs at the next visit.",
    "Discussed diet and activity; follow up in three months.",
    "Results reviewed with the patient, no change of therapy.",
    "Will call with results; return sooner if symptoms worsen.",
    "Monitor fluid balance and electrolytes, discharge planning begun.",
)
NEIGHBOURS = {
    "magnesium": ("{code}RBC", "mg/dL", (38, 72)),
    "potassium": ("{code}UR", "mmol/L", (180, 900)),
    "glucose": ("{code}CSF", "mg/dL", (450, 780)),
    "a1c": ("{code}FRUC", "umol/L", (2000, 2900)),
}
"""Related tests that are not meant: code, unit, and levels in tenths. Red cell magnesium, potassium in urine, glucose
in cerebrospinal fluid, fructosamine."""
