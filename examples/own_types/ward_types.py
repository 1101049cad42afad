"""Four task types of a ward, for charts as hospitals have them: see README.md."""

from medagent import clinical as c

TROUGH = c.Lab("4092-3", c.LOINC, "vancomycin trough", unit="ug/mL")
POTASSIUM = c.Lab("2823-3", c.LOINC, "potassium", unit="mmol/L", valence=1)
VANCOMYCIN = c.Drug("11124", c.RXNORM, "vancomycin", words=("vancocin",))
AMOXICILLIN = c.Drug("723", c.RXNORM, "amoxicillin", words=("amoxil", "moxatag"))
PENICILLIN = c.Drug("7980", c.RXNORM, "penicillin", words=(*AMOXICILLIN.words, AMOXICILLIN.name))
MAMMOGRAPHY = c.Code("77067", c.CPT, "mammography")


class HoldVancomycin(c.TaskType):
    """Stop vancomycin if its trough is too high."""

    name = "hold_vancomycin"
    text = """If vancomycin is active for patient {mrn} and its last trough (LOINC 4092-3) within 2 days is above 20
    ug/mL, stop vancomycin. Answer with the trough in ug/mL, or -1 if there is none."""

    def rule(self, chart: c.Chart) -> c.Ruling:
        if not chart.active_order(VANCOMYCIN):
            return c.nothing()
        trough = chart.latest(TROUGH, within=c.days(2))
        if trough is None:
            return c.nothing([-1])
        if trough <= 20:
            return c.nothing([trough.value])
        return c.order(c.stop(VANCOMYCIN), answers=[[trough.value]])


class OverdueMammography(c.TaskType):
    """Refer women of 50 to 74 years whose last mammography is older than two years."""

    name = "overdue_mammography"
    text = """If patient {mrn} is a woman of 50 to 74 years whose last mammography (CPT 77067) is older than 730 days or
    missing, refer her for one."""

    def rule(self, chart: c.Chart) -> c.Ruling:
        if chart.sex != "female" or chart.age < 50 or chart.age > 74:
            return c.nothing()
        last = chart.last_done(MAMMOGRAPHY)
        if last is not None and not last.older_than(days=730):
            return c.nothing()
        return c.order(c.referral(MAMMOGRAPHY))


class AmoxicillinAllergy(c.TaskType):
    """Stop amoxicillin if the patient is allergic to penicillins."""

    name = "amoxicillin_allergy"
    text = "If patient {mrn} is allergic to penicillin or amoxicillin and amoxicillin is active, stop it."

    def rule(self, chart: c.Chart) -> c.Ruling:
        if chart.allergy(PENICILLIN) is None or not chart.active_order(AMOXICILLIN):
            return c.nothing()
        return c.order(c.stop(AMOXICILLIN))


class RepeatPotassium(c.TaskType):
    """Repeat a low potassium."""

    name = "repeat_potassium"
    text = """If the last potassium (LOINC 2823-3) of patient {mrn} is below 3.5 mmol/L, order a repeat test for 8 am
    tomorrow. Answer with the last value in mmol/L, or -1 if there is none."""

    def rule(self, chart: c.Chart) -> c.Ruling:
        last = chart.latest(POTASSIUM)
        if last is None:
            return c.nothing([-1])
        if last >= 3.5:
            return c.nothing([last.value])
        return c.order(c.lab_test(POTASSIUM, at=chart.tomorrow(8)), answers=[[last.value]])
