"""The formulary: how each drug is ordered, which allergies forbid it, and what is ordered in kidney failure.

RxNorm codes are facts of that system: the product's code if the name is a product's, otherwise the ingredient's. Doses
are usual adult doses of common handbooks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Drug:
    """A drug as ordered: text, RxNorm code, dose (unit in UCUM), route, times a day (0: once).

    `family`: the allergens that forbid it. `renal`: the key of the drug that is ordered instead in kidney failure; ""
    means that no drug is ordered, None that this drug is ordered. `bag`: the volume, in mL, of the sodium chloride that
    the drug is mixed into. `flow`: the rate, in mL/h, of an infusion that runs for hours. `needed`: administered when
    the patient needs it.
    """

    key: str
    text: str
    rxnorm: str
    dose: float
    unit: str
    route: str
    daily: int
    family: tuple[str, ...] = ()
    renal: str | None = None
    bag: str = ""
    needed: bool = False
    flow: int = 0

    @property
    def rate(self) -> int:
        """The rate of an infusion in mL/h, otherwise 0. A bag up to 100 mL runs for 30 minutes, a larger one for 60."""
        volume = int(self.bag or 0)
        return self.flow or (2 * volume if volume <= 100 else volume)


_PO, _IV, _SC = "Oral", "Intravenous", "Subcutaneous"
_PEN, _NSAID, _OPIATE, _ACE = ("penicillin G",), ("ibuprofen", "aspirin"), ("codeine",), ("lisinopril",)
_UNITS = "[iU]"
_ALL = (
    Drug("metformin", "metformin 500 MG Oral Tablet", "861007", 500, "mg", _PO, 2, renal=""),
    Drug("sitagliptin", "sitagliptin 50 MG Oral Tablet", "593411", 50, "mg", _PO, 1),
    Drug("glargine", "insulin glargine 100 UNT/ML Injectable Solution", "311041", 16, _UNITS, _SC, 1),
    Drug("lispro", "insulin lispro 100 UNT/ML Injectable Solution", "86009", 4, _UNITS, _SC, 3),
    Drug("lisinopril", "lisinopril 10 MG Oral Tablet", "314076", 10, "mg", _PO, 1, _ACE, "amlodipine"),
    Drug("losartan", "losartan 50 MG Oral Tablet", "52175", 50, "mg", _PO, 1, (), "amlodipine"),
    Drug("amlodipine", "amlodipine 5 MG Oral Tablet", "197361", 5, "mg", _PO, 1),
    Drug("atorvastatin", "atorvastatin 20 MG Oral Tablet", "617310", 20, "mg", _PO, 1),
    Drug("furosemide", "furosemide 40 MG Oral Tablet", "313988", 40, "mg", _PO, 2),
    Drug("furosemide iv", "furosemide 10 MG/ML Injectable Solution", "4603", 40, "mg", _IV, 2),
    Drug("metoprolol", "metoprolol succinate 50 MG Extended Release Oral Tablet", "866436", 50, "mg", _PO, 1),
    Drug("apixaban", "apixaban 5 MG Oral Tablet", "1364445", 5, "mg", _PO, 2),
    Drug("warfarin", "warfarin sodium 5 MG Oral Tablet", "855332", 5, "mg", _PO, 1),
    Drug("heparin", "heparin 5000 units/mL injection", "5224", 5000, _UNITS, _SC, 3),
    Drug("enoxaparin", "enoxaparin 40 mg/0.4 mL injection", "67108", 40, "mg", _SC, 1, renal="enoxaparin 30"),
    Drug("enoxaparin 80", "enoxaparin 80 mg/0.8 mL injection", "67108", 80, "mg", _SC, 2, renal="enoxaparin 80 once"),
    Drug("enoxaparin 80 once", "enoxaparin 80 mg/0.8 mL injection", "67108", 80, "mg", _SC, 1),
    Drug("enoxaparin 30", "enoxaparin 30 mg/0.3 mL injection", "67108", 30, "mg", _SC, 1),
    Drug("aspirin", "aspirin 81 MG Oral Tablet", "243670", 81, "mg", _PO, 1, ("aspirin", "ibuprofen")),
    Drug("clopidogrel", "clopidogrel 75 MG Oral Tablet", "32968", 75, "mg", _PO, 1),
    Drug("omeprazole", "omeprazole 20 MG Delayed Release Oral Capsule", "198051", 20, "mg", _PO, 1),
    Drug("pantoprazole", "pantoprazole 40 MG Injection", "40790", 40, "mg", _IV, 2),
    Drug("levothyroxine", "levothyroxine sodium 0.1 MG Oral Tablet", "892246", 100, "ug", _PO, 1),
    Drug("ferrous", "ferrous sulfate 325 MG Oral Tablet", "310325", 325, "mg", _PO, 1),
    Drug("sertraline", "sertraline 50 MG Oral Tablet", "312941", 50, "mg", _PO, 1),
    Drug("mirtazapine", "mirtazapine 15 MG Oral Tablet", "15996", 15, "mg", _PO, 1),
    Drug("quetiapine", "quetiapine 100 MG Oral Tablet", "51272", 100, "mg", _PO, 1),
    Drug("gabapentin", "gabapentin 300 MG Oral Capsule", "310431", 300, "mg", _PO, 3, renal="gabapentin once"),
    Drug("gabapentin once", "gabapentin 300 MG Oral Capsule", "310431", 300, "mg", _PO, 1),
    Drug("tamsulosin", "tamsulosin 0.4 MG Oral Capsule", "77492", 0.4, "mg", _PO, 1),
    Drug("tiotropium", "tiotropium 18 MCG Inhalation Powder", "69120", 18, "ug", "Inhalation", 1),
    Drug("albuterol", "albuterol 2.5 MG Inhalation Solution", "435", 2.5, "mg", "Inhalation", 4),
    Drug("prednisone", "prednisone 40 MG Oral", "8640", 40, "mg", _PO, 1),
    Drug("thiamine", "thiamine 100 MG Oral Tablet", "10454", 100, "mg", _PO, 1),
    Drug("mesalamine", "mesalamine 1200 MG Delayed Release Oral Tablet", "52582", 2400, "mg", _PO, 1),
    Drug("ceftriaxone", "ceftriaxone 1000 MG Injection", "309090", 1, "g", _IV, 1, bag="50"),
    Drug("azithromycin", "azithromycin 500 MG Injection", "18631", 500, "mg", _IV, 1, bag="250"),
    Drug("vancomycin", "vancomycin 1000 MG Injection", "11124", 1, "g", _IV, 2, renal="vancomycin once", bag="250"),
    Drug("vancomycin once", "vancomycin 1000 MG Injection", "11124", 1, "g", _IV, 1, bag="250"),
    Drug(
        "piperacillin",
        "piperacillin 4 G / tazobactam 0.5 G Injection",
        "8339",
        4.5,
        "g",
        _IV,
        3,
        _PEN,
        "piperacillin low",
        "100",
    ),
    Drug(
        "piperacillin low", "piperacillin 2 G / tazobactam 0.25 G Injection", "8339", 2.25, "g", _IV, 3, _PEN, bag="50"
    ),
    Drug("cefepime", "cefepime 2000 MG Injection", "20481", 2, "g", _IV, 2, renal="cefepime low", bag="100"),
    Drug("cefepime low", "cefepime 1000 MG Injection", "20481", 1, "g", _IV, 1, bag="50"),
    Drug("cefazolin", "cefazolin 1000 MG Injection", "2180", 1, "g", _IV, 3, renal="cefazolin low", bag="50"),
    Drug("cefazolin low", "cefazolin 1000 MG Injection", "2180", 1, "g", _IV, 2, bag="50"),
    Drug("cefazolin once", "cefazolin 2000 MG Injection", "2180", 2, "g", _IV, 0),
    Drug("metronidazole", "metronidazole 500 MG Injection", "6922", 500, "mg", _IV, 3, bag="100"),
    Drug("potassium", "potassium chloride 20 MEQ Extended Release Oral Tablet", "8591", 40, "meq", _PO, 0),
    Drug("magnesium", "magnesium sulfate 2 G Injection", "6585", 2, "g", _IV, 0, bag="50", flow=25),
    Drug("saline", "sodium chloride 0.9 % Injection 1000 mL", "9863", 1000, "mL", _IV, 0, flow=100),
    Drug("bolus", "sodium chloride 0.9 % Injection 500 mL", "9863", 500, "mL", _IV, 0, flow=500),
    Drug("flush", "sodium chloride 0.9 % Prefilled Syringe 10 mL", "9863", 10, "mL", _IV, 3),
    Drug("dextrose", "glucose 50 % Injection 25 g", "4850", 25, "g", _IV, 1, needed=True),
    Drug("norepinephrine", "norepinephrine 8 MG Injection", "7512", 8, "mg", _IV, 1, bag="250", flow=15),
    Drug("acetaminophen", "acetaminophen 325 MG Oral Tablet", "313782", 650, "mg", _PO, 4, needed=True),
    Drug("ibuprofen", "ibuprofen 400 MG Oral Tablet", "5640", 400, "mg", _PO, 3, _NSAID, "acetaminophen", needed=True),
    Drug("oxycodone", "oxycodone hydrochloride 5 MG Oral Tablet", "7804", 5, "mg", _PO, 4, _OPIATE, needed=True),
    Drug("hydromorphone", "hydromorphone 0.5 MG Injection", "3423", 0.5, "mg", _IV, 4, _OPIATE, needed=True),
    Drug(
        "morphine",
        "morphine sulfate 15 MG Extended Release Oral Tablet",
        "7052",
        15,
        "mg",
        _PO,
        2,
        _OPIATE,
        "oxycodone",
    ),
    Drug("fentanyl", "fentanyl 25 MCG/HR Transdermal Patch", "4337", 25, "ug/h", "Transdermal", 1),
    Drug("naloxone", "naloxone 4 MG Nasal Spray", "7242", 4, "mg", "Nasal", 1, needed=True),
    Drug("ondansetron", "ondansetron 4 MG Injection", "26225", 4, "mg", _IV, 3, needed=True),
    Drug("ondansetron oral", "ondansetron 4 MG Oral Tablet", "26225", 4, "mg", _PO, 3, needed=True),
    Drug("prochlorperazine", "prochlorperazine 5 MG Oral Tablet", "8704", 5, "mg", _PO, 3, needed=True),
    Drug("docusate", "docusate sodium 100 MG Oral Capsule", "82003", 100, "mg", _PO, 2),
    Drug("sennosides", "sennosides 8.6 MG Oral Tablet", "36387", 17.2, "mg", _PO, 1),
    Drug("polyethylene", "polyethylene glycol 3350 17 G Oral Powder", "221147", 17, "g", _PO, 1, needed=True),
    Drug("melatonin", "melatonin 3 MG Oral Tablet", "6711", 3, "mg", _PO, 1, needed=True),
    Drug("bisacodyl", "bisacodyl 10 MG Rectal Suppository", "1596", 10, "mg", "Rectal", 0),
    Drug("simethicone", "simethicone 80 MG Chewable Tablet", "9796", 80, "mg", _PO, 0),
    Drug("antacid", "calcium carbonate 500 MG Chewable Tablet", "1897", 500, "mg", _PO, 0),
    Drug("guaifenesin", "guaifenesin 200 MG Oral Tablet", "5032", 200, "mg", _PO, 0),
    Drug("lidocaine", "lidocaine 5 % Transdermal Patch", "6387", 700, "mg", "Transdermal", 0),
)
DRUGS = {drug.key: drug for drug in _ALL}
MIXED = tuple(drug for drug in _ALL if drug.bag)
"""Drugs that are mixed into a bag of sodium chloride."""


GROUPS = (
    {"omeprazole", "pantoprazole"},
    {"lisinopril", "losartan"},
    {"furosemide", "furosemide iv"},
    {"ondansetron", "ondansetron oral"},
    {"enoxaparin", "enoxaparin 30", "enoxaparin 80", "enoxaparin 80 once"},
)
"""Drugs of which a patient takes only one at a time. Opioids and anticoagulants are not here: two of them are what some
tasks look for."""


def are_alike(drug: Drug, second: Drug) -> bool:
    """Whether a patient needs only one of two drugs: the same drug, or two of one group."""
    return drug.key == second.key or any({drug.key, second.key} <= group for group in GROUPS)


def suitable(keys: Iterable[str], allergies: tuple[str, ...], *, renal: bool) -> Drug | None:
    """The first of these drugs that the patient's allergies and kidney allow, or None.

    With `renal`, a drug is replaced by its `Drug.renal`.
    """
    for key in keys:
        drug: Drug | None = DRUGS[key]
        if renal and drug is not None and drug.renal is not None:
            drug = DRUGS.get(drug.renal)
        if drug is not None and not set(drug.family) & set(allergies):
            return drug
    return None
