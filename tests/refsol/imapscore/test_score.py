from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refsol.imapscore.imap import Imap, TermValue
from refsol.imapscore.records import Recording
from refsol.imapscore.relations import Recorded, Relation, ValuePair, find_relations
from refsol.imapscore.score import Normalize, Penalty, Status, score, score_recordings
from refsol.imapscore.votes import agreed, agreed_imap, agreed_relations

Values = dict[str, list[str]]
Related = dict[tuple[str, str, str], str]


def imap(values: Values) -> Imap:
    return Imap(inform=tuple(TermValue(term, value) for term, listed in values.items() for value in listed))


def relations(related: Related) -> dict[ValuePair, Relation]:
    return {ValuePair(*names): Relation(relation) for names, relation in related.items()}


def value(label: Values, response: Values, related: Related, penalty: str = "ratio") -> Fraction | None:
    return score(imap(label), imap(response), relations(related), penalty=Penalty(penalty)).value


def swapped(related: Related) -> Related:
    other_side = {"b": "c", "c": "b"}
    return {(t, w, v): other_side.get(relation, relation) for (t, v, w), relation in related.items()}


TREATMENT = {
    "label": {"treatment": ["penicillin", "incision and drainage"]},
    "response": {"treatment": ["antibiotic therapy", "surgical drainage", "oral steroids"]},
    "related": {
        ("treatment", "penicillin", "antibiotic therapy"): "b",
        ("treatment", "incision and drainage", "surgical drainage"): "e",
    },
}
NEPHRITIS = {
    "label": {
        "diagnosis": ["nephritis"],
        "treatment": [
            "low-salt diet",
            "prednisone",
            "ACE inhibitor",
            "fluid restriction",
            "blood pressure monitoring",
        ],
        "department": ["nephrology"],
    },
    "response": {
        "diagnosis": ["glomerulonephritis", "kidney stone"],
        "treatment": ["corticosteroids", "lisinopril"],
        "prognosis": ["good"],
    },
    "related": {
        ("diagnosis", "nephritis", "glomerulonephritis"): "c",
        ("treatment", "prednisone", "corticosteroids"): "b",
        ("treatment", "ACE inhibitor", "lisinopril"): "c",
    },
}
ASTHMA = {
    "label": {"diagnosis": ["asthma", "pneumonia", "bronchitis"]},
    "response": {"diagnosis": ["exercise-induced asthma", "GERD", "heart failure"]},
    "related": {("diagnosis", "asthma", "exercise-induced asthma"): "c"},
}
HYPERTENSION = {
    "label": {"diagnosis": ["hypertension"]},
    "response": {"diagnosis": ["HTN", "essential hypertension", "headache"]},
    "related": {
        ("diagnosis", "hypertension", "HTN"): "e",
        ("diagnosis", "hypertension", "essential hypertension"): "c",
    },
}
TIES = {
    "label": {"t": ["a", "b"]},
    "response": {"t": ["x", "y"]},
    "related": {("t", "a", "x"): "c", ("t", "a", "y"): "c", ("t", "b", "x"): "b"},
}
ANAEMIA = {
    "label": {"diagnosis": ["anaemia", "iron-deficiency anaemia"]},
    "response": {"diagnosis": ["anemia", "iron deficiency anemia"]},
    "related": {
        ("diagnosis", "anaemia", "anemia"): "e",
        ("diagnosis", "iron-deficiency anaemia", "iron deficiency anemia"): "e",
        ("diagnosis", "anaemia", "iron deficiency anemia"): "c",
        ("diagnosis", "iron-deficiency anaemia", "anemia"): "b",
    },
}


@pytest.mark.parametrize(
    ("case", "penalty", "figure"),
    [
        (TREATMENT, "ratio", Fraction(5, 3)),
        (NEPHRITIS, "ratio", Fraction(7, 5)),
        (NEPHRITIS, "count", Fraction(9, 10)),
        (NEPHRITIS, "off", Fraction(29, 10)),
        (NEPHRITIS, "best", Fraction(7, 5)),
        (ASTHMA, "ratio", Fraction(-1, 3)),
        (HYPERTENSION, "ratio", Fraction(7, 6)),
        (HYPERTENSION, "count", Fraction(2, 3)),
        (HYPERTENSION, "off", Fraction(5, 3)),
        (HYPERTENSION, "best", Fraction(7, 6)),
        (TIES, "best", Fraction(4, 3)),
        (ANAEMIA, "ratio", Fraction(7, 4)),
        (ANAEMIA, "count", Fraction(1)),
        (ANAEMIA, "best", Fraction(2)),
    ],
)
def test_figures(case: dict[str, dict[object, object]], penalty: str, figure: Fraction) -> None:
    assert value(**case, penalty=penalty) == figure


def test_figures_with_the_sides_swapped() -> None:
    assert value(TREATMENT["response"], TREATMENT["label"], swapped(TREATMENT["related"])) == Fraction(7, 6)


def test_parts_of_a_term() -> None:
    result = score(imap(NEPHRITIS["label"]), imap(NEPHRITIS["response"]), relations(NEPHRITIS["related"]))
    assert [(part.term, part.recall, part.precision, part.penalty) for part in result.terms] == [
        ("diagnosis", 1, Fraction(1, 2), 1),
        ("treatment", Fraction(2, 5), 1, Fraction(1, 2)),
    ]
    assert [(link.pair.label, link.relation) for link in result.terms[1].links] == [
        ("prednisone", Relation.BELONGING),
        ("ACE inhibitor", Relation.CONTAINMENT),
    ]


@pytest.mark.parametrize(("normalize", "divisor"), [("none", 1), ("label", 6), ("shared", 4)])
def test_normalised_sums(normalize: str, divisor: int) -> None:
    label, response, related = NEPHRITIS["label"], NEPHRITIS["response"], relations(NEPHRITIS["related"])
    result = score(imap(label), imap(response), related, normalize=Normalize(normalize))
    assert result.value == Fraction(7, 5) / divisor


@pytest.mark.parametrize(
    ("label", "response", "status"),
    [
        ({"a": ["x"]}, {"b": ["x"]}, Status.NO_SHARED_TERM),
        ({}, {"b": ["x"]}, Status.EMPTY_LABEL),
        ({"a": ["x"]}, {}, Status.EMPTY_RESPONSE),
        ({}, {}, Status.BOTH_EMPTY),
        ({"a": ["x"]}, {"a": ["y"]}, Status.OK),
    ],
)
@pytest.mark.parametrize("normalize", list(Normalize))
def test_zero_comes_with_its_reason(label: Values, response: Values, status: Status, normalize: Normalize) -> None:
    result = score(imap(label), imap(response), {}, normalize=normalize)
    assert (result.status, result.value) == (status, 0)


def test_an_explicit_none_is_an_empty_response() -> None:
    assert score(imap({"a": ["x"]}), Imap(explicit_none=True), {}).status is Status.EMPTY_RESPONSE


def test_failed_recordings_have_no_score() -> None:
    failed = [
        Recording("1", "d", Imap(), Imap(), Imap(), failure=kind) for kind in ("no_agreement", "extraction_failed")
    ]
    results = score_recordings(failed)
    assert [(result.status, result.value) for result in results] == [
        (Status.NO_AGREEMENT, None),
        (Status.EXTRACTION_FAILED, None),
    ]


def test_equal_texts_are_exact_without_asking() -> None:
    label, response = imap({"d": ["Flu.", "cold"]}), imap({"D": ["ｆｌｕ", "other"]})
    found = find_relations(label, response, [Recorded({ValuePair("d", "flu", "flu"): Relation.UNMATCHED})])
    assert found[ValuePair("d", "flu", "flu")] is Relation.EXACT
    assert score(label, response, found).value == 1


_VALUES = st.lists(st.sampled_from("abcdef"), max_size=4)
_IMAPS = st.dictionaries(st.sampled_from(["s", "t", "u"]), _VALUES, max_size=3)
_RELATED = st.dictionaries(
    st.tuples(st.sampled_from("stu"), st.sampled_from("abcdef"), st.sampled_from("abcdef")), st.sampled_from("ebcu")
)
_PENALTIES = st.sampled_from([penalty.value for penalty in Penalty])


@given(_IMAPS, _IMAPS, _RELATED, _PENALTIES, st.randoms())
def test_order_and_duplicates_do_not_matter(
    label: Values, response: Values, related: Related, penalty: str, random: st.DataObject
) -> None:
    def shuffled(values: Values) -> Values:
        terms = list(values)
        random.shuffle(terms)
        twice = {term: values[term] * 2 for term in terms}
        for listed in twice.values():
            random.shuffle(listed)
        return twice

    assert value(shuffled(label), shuffled(response), related, penalty) == value(label, response, related, penalty)


@given(_IMAPS, _IMAPS, _RELATED)
def test_without_a_penalty_the_sides_are_equal(label: Values, response: Values, related: Related) -> None:
    assert value(label, response, related, "off") == value(response, label, swapped(related), "off")


@given(_IMAPS, _PENALTIES)
def test_a_label_against_itself_has_twice_its_terms(label: Values, penalty: str) -> None:
    found = find_relations(imap(label), imap(label))
    result = score(imap(label), imap(label), found, penalty=Penalty(penalty))
    assert result.value == 2 * len(imap(label).informed)


@given(_IMAPS, _IMAPS, _RELATED)
def test_bounds(label: Values, response: Values, related: Related) -> None:
    for term in score(imap(label), imap(response), relations(related)).terms:
        assert 0 <= term.recall <= 1
        assert 0 <= term.precision <= 1
        assert 0 <= term.penalty <= 1


def test_votes() -> None:
    assert agreed(["ab", "ac", "ab"], 3) == ("a",)
    assert agreed(["ab", "ac", "ab"], 2) == ("a", "b")
    assert agreed(["aa", "b"], 2) == ()


def test_votes_on_imaps() -> None:
    flu, cold, none = imap({"d": ["Flu"]}), imap({"d": ["cold"]}), Imap(explicit_none=True)
    assert agreed_imap([flu, imap({"d": ["flu."]}), cold], 2, "inform") == flu
    assert agreed_imap([flu, cold, none], 2, "inform") is None
    assert agreed_imap([none, cold, none], 2, "inform") == none
    assert agreed_imap([flu], 2, "inform") is None
    assert agreed_imap([], 2, "inform") is None
    constrained = Imap(constraint=(TermValue("age", "28"),))
    assert agreed_imap([constrained, constrained], 3, "query") is None


def test_votes_on_relations() -> None:
    pair, second_pair = ValuePair("d", "flu", "cold"), ValuePair("d", "flu", "fever")
    samples = [
        {pair: Relation.BELONGING, second_pair: Relation.EXACT},
        {pair: Relation.BELONGING, second_pair: Relation.CONTAINMENT},
        {pair: Relation.UNMATCHED},
    ]
    assert agreed_relations(samples, 2) == {pair: Relation.BELONGING}
    assert agreed_relations(samples, 3) == {}
    assert agreed_relations(samples, 1)[second_pair] is Relation.EXACT
