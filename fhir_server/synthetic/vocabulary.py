"""What happens to patients beside tests: symptoms and services of visits, vaccines, allergies, cultures.

ICD-10-CM, CPT, CVX, RxNorm and SNOMED CT codes are facts of those systems; the texts of services are short descriptions
of the project's own. Problems and drugs are those of `fhir_server.synthetic.problems`.
"""

from __future__ import annotations

SYMPTOMS = (
    ("R05.9", "Cough, unspecified"),
    ("R51.9", "Headache, unspecified"),
    ("R07.9", "Chest pain, unspecified"),
    ("R42", "Dizziness and giddiness"),
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
)
VISIT_SERVICES = (
    ("99213", "Office visit, established patient"),
    ("99214", "Office visit, established patient, moderate complexity"),
    ("36415", "Venipuncture"),
    ("80053", "Metabolic panel, comprehensive"),
    ("85025", "Blood count with differential"),
    ("80061", "Lipid panel"),
    ("83036", "Hemoglobin A1c"),
    ("81001", "Urinalysis with microscopy"),
    ("97110", "Therapeutic exercise, 15 minutes"),
)
STAY_SERVICES = (
    ("99232", "Hospital care, subsequent day"),
    ("36415", "Venipuncture"),
    ("80048", "Metabolic panel, basic"),
    ("85025", "Blood count with differential"),
    ("83735", "Magnesium"),
    ("84132", "Potassium, serum"),
    ("96374", "Intravenous push"),
    ("97530", "Therapeutic activities, 15 minutes"),
    ("97802", "Nutrition therapy, assessment"),
    ("97110", "Therapeutic exercise, 15 minutes"),
)
PANELS = {
    "basic": ("24320-4", "Basic metabolic panel"),
    "count": ("58410-2", "Complete blood count"),
    "liver": ("24325-3", "Liver panel"),
    "lipids": ("24331-1", "Lipid panel"),
}
"""LOINC codes of diagnostic reports and of the requests for them."""
VACCINES = (
    ("33", "Pneumococcal polysaccharide, 23 valent"),
    ("115", "Tdap"),
    ("187", "Zoster recombinant"),
    ("43", "Hepatitis B, adult"),
)
INFLUENZA, COVID = (
    ("150", "Influenza, injectable, quadrivalent, preservative free"),
    ("208", "COVID-19, mRNA, 30 mcg/0.3 mL"),
)
ALLERGENS = (
    ("7980", "penicillin G", "medication"),
    ("1191", "aspirin", "medication"),
    ("2670", "codeine", "medication"),
    ("10180", "sulfamethoxazole", "medication"),
    ("5640", "ibuprofen", "medication"),
    ("29046", "lisinopril", "medication"),
    ("256349002", "Peanut", "food"),
    ("111088007", "Latex", "environment"),
)
"""Code (RxNorm for drugs, else SNOMED CT), name and category."""
REACTIONS = (("271807003", "Rash"), ("126485001", "Urticaria"), ("422587007", "Nausea"), ("267036007", "Dyspnea"))
NEIGHBOURS: dict[str, tuple[str, str, tuple[int, int], tuple[str, str]]] = {
    "magnesium": ("{code}RBC", "mg/dL", (38, 72), ("4.0", "6.4")),
    "potassium": ("{code}UR", "mmol/L", (180, 900), ("25.0", "125.0")),
    "glucose": ("{code}UR", "mg/dL", (10, 180), ("0.0", "15.0")),
    "a1c": ("{code}FRUC", "umol/L", (2000, 2900), ("205.0", "285.0")),
}
"""Related tests that are not meant: code, unit, levels in tenths, reference range. Red cell magnesium, potassium and
glucose in urine, fructosamine."""
ANTIBIOTICS = ("AMPICILLIN", "CEFTRIAXONE", "CIPROFLOXACIN", "GENTAMICIN", "MEROPENEM", "TRIMETHOPRIM/SULFA")
"""What isolates are tested against."""
ORGANISMS: dict[str, tuple[tuple[str, str], ...]] = {
    "BLOOD CULTURE": (
        ("112283007", "ESCHERICHIA COLI"),
        ("9861002", "STREPTOCOCCUS PNEUMONIAE"),
        ("3092008", "STAPHYLOCOCCUS AUREUS"),
    ),
    "URINE": (
        ("112283007", "ESCHERICHIA COLI"),
        ("56415008", "KLEBSIELLA PNEUMONIAE"),
        ("73457008", "PROTEUS MIRABILIS"),
    ),
    "SPUTUM": (("9861002", "STREPTOCOCCUS PNEUMONIAE"), ("44470000", "HAEMOPHILUS INFLUENZAE")),
    "MRSA SCREEN": (("115329001", "METHICILLIN RESISTANT STAPHYLOCOCCUS AUREUS"),),
}
"""SNOMED CT codes and names of what grows, by specimen."""
SPECIMENS = {
    "BLOOD CULTURE": ("119297000", "Blood specimen"),
    "URINE": ("122575003", "Urine specimen"),
    "SPUTUM": ("119334006", "Sputum specimen"),
    "MRSA SCREEN": ("445297001", "Swab of internal nose"),
}
