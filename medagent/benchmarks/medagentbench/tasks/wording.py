"""The words of the bundled tasks: a few phrasings of each instruction, one context a type.

They give what the published tasks give (clock, codes, dosing rules) in the project's own words. Two texts are quoted to
the letter, since the benchmark's grader compares them: the blood pressure and the text of the referral.
"""

from __future__ import annotations

from refsol.medagentbench.constants import PUBLISHED

BLOOD_PRESSURE, REFERRAL = PUBLISHED.blood_pressure, PUBLISHED.referral
_CLOCK = f"The current time is {PUBLISHED.now_text}."

INSTRUCTIONS: dict[str, tuple[str, ...]] = {
    "task1": (
        'Look up the MRN of {given} {family}, born {birth}. Answer with the MRN, or with "Patient not found" if nobody '
        "in the records has both that name and that birth date.",
        "Which medical record number belongs to the patient named {given} {family} whose date of birth is {birth}? "
        'If there is no such patient, the answer is "Patient not found".',
        'I need the MRN for {family}, {given} (DOB {birth}). Reply "Patient not found" when no record matches.',
    ),
    "task2": (
        "How old is patient {mrn} today?",
        "Give the current age, in years, of the patient with MRN {mrn}.",
        "For the patient whose MRN is {mrn}: what is the age as of now?",
    ),
    "task3": (
        f'Patient {{mrn}} has just had a blood pressure of "{BLOOD_PRESSURE}" measured. Please chart it.',
        f'Record a new blood pressure for the patient with MRN {{mrn}}: "{BLOOD_PRESSURE}", taken this minute.',
        f'Please enter "{BLOOD_PRESSURE}" as the present blood pressure of patient {{mrn}} in the flowsheet.',
    ),
    "task4": (
        "Report the latest magnesium of patient {mrn} from the past 24 hours.",
        "For patient {mrn}, what did the newest magnesium measurement of the last 24 hours show?",
        "What is the most up-to-date magnesium level in the chart of {mrn}, looking back 24 hours and no further?",
    ),
    "task5": (
        "Review the newest magnesium level of patient {mrn} from the past 24 hours. Where it is low, order IV "
        "magnesium replacement following the dosing rule. Where there is no level in that period, place no order.",
        "Does patient {mrn} need magnesium? Go by the last serum level of the past 24 hours: order intravenous "
        "replacement by the dosing rule if it is low, and nothing if it is not or if none was measured.",
        "Take the latest magnesium of the last 24 hours for {mrn}. A low level calls for an order of IV magnesium at "
        "the dose given by the rule; no level at all calls for no order.",
    ),
    "task6": (
        "Work out the mean capillary blood glucose of patient {mrn} over the past 24 hours.",
        "What do the glucose readings (CBG) of patient {mrn} average over the last 24 hours?",
        "Averaging all CBG values of the previous 24 hours, what is the glucose of the patient with MRN {mrn}?",
    ),
    "task7": (
        "Give the latest capillary glucose (CBG) on record for patient {mrn}.",
        "What was the last CBG reading of the patient with MRN {mrn}, whenever it was taken?",
        "Find the newest glucose value (CBG) in the chart of {mrn}, no matter how old it is.",
    ),
    "task8": (
        f'Refer patient {{mrn}} to orthopedic surgery. The free text of the referral should read: "{REFERRAL}"',
        f'Please place an orthopedic surgery referral for the patient with MRN {{mrn}}, with this note: "{REFERRAL}"',
        f'An orthopedic surgery referral is needed for {{mrn}}. Put this into its free text: "{REFERRAL}"',
    ),
    "task9": (
        "Look at the latest potassium of patient {mrn}. If it is low, order oral replacement by the dosing rule, and "
        "with it a serum potassium for 8 o'clock tomorrow morning.",
        "Is potassium replacement due for the patient with MRN {mrn}? Judge by the last recorded level. When low, "
        "order it as the dosing rule says, then order a repeat serum potassium for 8 am the next day.",
        "Check the last potassium in the chart of {mrn}. A low value needs two orders: the replacement, dosed by the "
        "rule, and a follow-up serum potassium tomorrow at 08:00.",
    ),
    "task10": (
        "What is the last hemoglobin A1c (HbA1c) of patient {mrn}, and when was it taken? If that was more than a year "
        "ago, order a new one.",
        "Find the newest HbA1c in the chart of {mrn} with its time. When it is over one year old, place an order for "
        "another test.",
        "Report value and time of the latest HbA1c for the patient with MRN {mrn}; a result older than a year means "
        "that a fresh HbA1c has to be ordered.",
    ),
}

CONTEXTS: dict[str, str] = {
    "task1": 'Answer with a list of one text: ["S1234567"], or ["Patient not found"].',
    "task2": f"{_CLOCK} Count completed years only, so round down; answer with a list of one integer, such as [57].",
    "task3": f"{_CLOCK} Blood pressure has the flowsheet ID BP. Nothing needs to be reported back: answer [].",
    "task4": (
        f'{_CLOCK} Magnesium has the code "MG". Answer with a list of one number, in mg/dL; if there is no measurement '
        "within the last 24 hours, the answer is [-1]."
    ),
    "task5": (
        f'{_CLOCK} Magnesium has the code "MG". IV magnesium for replacement has the NDC 0338-1715-40. Dosing rule, by '
        "serum magnesium in mg/dL: 1.5 to 1.9 is a mild deficiency, give 1 g IV over 1 hour; from 1 to below 1.5 a "
        "moderate one, 2 g IV over 2 hours; below 1 a severe one, 4 g IV over 4 hours. The order starts now. Answer "
        "with a list that holds the level, or [] if there was none in the last 24 hours."
    ),
    "task6": (
        f'{_CLOCK} CBG has the code "GLU". Answer with a list of one number, in mg/dL, and keep the decimals; if there '
        "is no measurement within the last 24 hours, the answer is [-1]."
    ),
    "task7": (
        f'{_CLOCK} CBG has the code "GLU". Answer with a list of one number, in mg/dL; if there is no measurement at '
        "all, the answer is [-1]."
    ),
    "task8": (
        f"{_CLOCK} An orthopedic surgery referral has the SNOMED code 306181000000106. "
        "Nothing needs to be reported back: answer []."
    ),
    "task9": (
        f'{_CLOCK} Potassium has the code "K"; low means below 3.5 mEq/L (or mmol/L). Oral potassium for replacement '
        "has the NDC 40032-917-01. Dosing rule: 10 mEq by mouth for every 0.1 mEq/L that the level lies below 3.5. A "
        "serum potassium test has the LOINC code 2823-3. Answer with a list that holds the level, or [-1] if there is "
        "none."
    ),
    "task10": (
        f'{_CLOCK} HbA1c has the code "A1C"; the LOINC code to order the test is 4548-4. Answer with a list of the '
        f'value and the time as it stands in the record, such as [5.9, "2023-11-09T03:05:00+00:00"]; if there is no '
        "measurement, order the test and answer [-1]."
    ),
}
