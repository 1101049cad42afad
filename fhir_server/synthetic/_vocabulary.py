"""Codes of symptoms, services, vaccines, allergies and cultures.

ICD-10-CM, CPT, CVX, RxNorm and SNOMED CT codes are facts of those systems. The texts of services are the project's own
short descriptions. Problems are in `_problems`, drugs in `_drugs`.
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
STAY_SYMPTOMS = (
    ("G47.00", "Insomnia, unspecified"),
    ("K59.00", "Constipation, unspecified"),
    ("R53.83", "Other fatigue"),
    ("R11.0", "Nausea"),
    ("R51.9", "Headache, unspecified"),
)
"""Symptoms coded in a stay for any reason."""
_FEVER, _DYSPNEA, _PAIN = (
    ("R50.9", "Fever, unspecified"),
    ("R06.02", "Shortness of breath"),
    ("R10.9", "Unspecified abdominal pain"),
)
SYMPTOMS_OF: dict[str, tuple[tuple[str, str], ...]] = {
    "J18.9": (_FEVER, _DYSPNEA, ("R05.9", "Cough, unspecified")),
    "N39.0": (_FEVER, ("R30.0", "Dysuria")),
    "A41.9": (_FEVER, ("R41.0", "Disorientation, unspecified"), ("R68.83", "Chills (without fever)")),
    "L03.115": (_FEVER, ("M79.661", "Pain in right lower leg")),
    "N17.9": (("R34", "Anuria and oliguria"), ("R60.0", "Localized edema")),
    "K85.90": (_PAIN, ("R11.2", "Nausea with vomiting, unspecified")),
    "K92.2": (("K92.1", "Melena"), ("R42", "Dizziness and giddiness")),
    "I50.33": (_DYSPNEA, ("R60.0", "Localized edema")),
    "J44.1": (_DYSPNEA, ("R06.2", "Wheezing")),
    "I21.4": (("R07.9", "Chest pain, unspecified"), _DYSPNEA),
    "K35.80": (_PAIN, _FEVER),
    "M17.11": (("M25.561", "Pain in right knee"),),
    "K80.20": (_PAIN,),
    "C64.2": (_PAIN,),
    "K40.90": (("R10.31", "Right lower quadrant pain"),),
}
"""Symptoms coded in a stay, by its reason (ICD-10-CM)."""
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
)
"""Services billed in a stay for any reason."""
SERVICES: dict[str, tuple[tuple[str, str], ...]] = {
    "J18.9": (("94640", "Inhalation treatment"), ("94760", "Pulse oximetry"), ("84145", "Procalcitonin")),
    "N39.0": (("81001", "Urinalysis with microscopy"), ("87086", "Urine culture, colony count")),
    "A41.9": (("83605", "Lactate"), ("84145", "Procalcitonin"), ("87040", "Blood culture, bacterial")),
    "L03.115": (("86140", "C-reactive protein"), ("97530", "Therapeutic activities, 15 minutes")),
    "N17.9": (("84300", "Sodium, urine"), ("82570", "Creatinine, other source"), ("81001", "Urinalysis")),
    "K85.90": (("83690", "Lipase"), ("82150", "Amylase"), ("97802", "Nutrition therapy, assessment")),
    "K92.2": (("85018", "Hemoglobin"), ("86900", "Blood typing, ABO"), ("85610", "Prothrombin time")),
    "I50.33": (("83880", "Natriuretic peptide"), ("94760", "Pulse oximetry"), ("97802", "Nutrition assessment")),
    "J44.1": (("94640", "Inhalation treatment"), ("94760", "Pulse oximetry"), ("82803", "Blood gases")),
    "I21.4": (("84484", "Troponin, quantitative"), ("80061", "Lipid panel"), ("85730", "Thromboplastin time")),
    "K35.80": (("85025", "Blood count with differential"), ("86140", "C-reactive protein")),
    "M17.11": (("97116", "Gait training, 15 minutes"), ("97110", "Therapeutic exercise, 15 minutes")),
    "K80.20": (("80076", "Hepatic function panel"), ("85025", "Blood count with differential")),
    "C64.2": (("82565", "Creatinine"), ("85018", "Hemoglobin"), ("97116", "Gait training, 15 minutes")),
    "K40.90": (("85018", "Hemoglobin"), ("97116", "Gait training, 15 minutes")),
}
"""Services billed in a stay, by its reason (ICD-10-CM)."""
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
"""Code (RxNorm for drugs, otherwise SNOMED CT), name and category."""
REACTIONS = (("271807003", "Rash"), ("126485001", "Urticaria"), ("422587007", "Nausea"), ("267036007", "Dyspnea"))
NEIGHBOURS: dict[str, tuple[str, str, tuple[int, int], tuple[str, str]]] = {
    "magnesium": ("{code}RBC", "mg/dL", (38, 72), ("4.0", "6.4")),
    "potassium": ("{code}UR", "mmol/L", (180, 900), ("25.0", "125.0")),
    "glucose": ("{code}UR", "mg/dL", (10, 180), ("0.0", "15.0")),
    "a1c": ("{code}FRUC", "umol/L", (2000, 2900), ("205.0", "285.0")),
}
"""Tests that resemble a key test and decide no task: code, unit, levels in tenths, reference range. They are magnesium
in red cells, potassium and glucose in urine, and fructosamine."""
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
"""SNOMED CT codes and names of organisms, by specimen."""
ANTIBIOTICS: dict[str, tuple[tuple[str, float, float], ...]] = {
    "ESCHERICHIA COLI": (
        *(("AMPICILLIN", 0.02, 0.48), ("CEFTRIAXONE", 0.0, 0.12), ("CIPROFLOXACIN", 0.02, 0.25)),
        *(("GENTAMICIN", 0.0, 0.08), ("MEROPENEM", 0.0, 0.01), ("TRIMETHOPRIM/SULFA", 0.0, 0.27)),
    ),
    "KLEBSIELLA PNEUMONIAE": (
        *(("AMPICILLIN", 0.0, 1.0), ("CEFTRIAXONE", 0.0, 0.15), ("CIPROFLOXACIN", 0.03, 0.14)),
        *(("GENTAMICIN", 0.0, 0.06), ("MEROPENEM", 0.0, 0.03), ("TRIMETHOPRIM/SULFA", 0.0, 0.18)),
    ),
    "PROTEUS MIRABILIS": (
        *(("AMPICILLIN", 0.0, 0.3), ("CEFTRIAXONE", 0.0, 0.05), ("CIPROFLOXACIN", 0.03, 0.25)),
        *(("GENTAMICIN", 0.0, 0.08), ("MEROPENEM", 0.0, 0.01), ("TRIMETHOPRIM/SULFA", 0.0, 0.28)),
    ),
    "STREPTOCOCCUS PNEUMONIAE": (
        *(("PENICILLIN G", 0.05, 0.05), ("CEFTRIAXONE", 0.03, 0.02), ("ERYTHROMYCIN", 0.0, 0.35)),
        *(("LEVOFLOXACIN", 0.0, 0.02), ("VANCOMYCIN", 0.0, 0.0), ("TRIMETHOPRIM/SULFA", 0.08, 0.2)),
    ),
    "STAPHYLOCOCCUS AUREUS": (
        *(("OXACILLIN", 0.0, 0.3), ("CLINDAMYCIN", 0.0, 0.2), ("ERYTHROMYCIN", 0.03, 0.45)),
        *(("GENTAMICIN", 0.0, 0.04), ("VANCOMYCIN", 0.0, 0.0), ("TRIMETHOPRIM/SULFA", 0.0, 0.05)),
    ),
    "HAEMOPHILUS INFLUENZAE": (
        *(("AMPICILLIN", 0.02, 0.3), ("CEFTRIAXONE", 0.0, 0.0), ("LEVOFLOXACIN", 0.0, 0.01)),
        *(("AZITHROMYCIN", 0.0, 0.03), ("TRIMETHOPRIM/SULFA", 0.02, 0.3)),
    ),
    "METHICILLIN RESISTANT STAPHYLOCOCCUS AUREUS": (("OXACILLIN", 0.0, 1.0),),
}
"""Antibiotics by organism, with the shares of intermediate and resistant isolates. The shares are plausible values
without a source."""
SPECIMENS = {
    "BLOOD CULTURE": ("119297000", "Blood specimen"),
    "URINE": ("122575003", "Urine specimen"),
    "SPUTUM": ("119334006", "Sputum specimen"),
    "MRSA SCREEN": ("445297001", "Swab of internal nose"),
}
