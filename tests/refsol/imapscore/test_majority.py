"""The majority baseline, by hand."""

from __future__ import annotations

from fractions import Fraction

from refsol.imapscore.imap import Imap, TermValue
from refsol.imapscore.score import AskedLabel, majority_scores


def item(id_: str, *pairs: tuple[str, str], terms: tuple[str, ...] = ("test", "diet")) -> AskedLabel:
    return AskedLabel(id_, terms, Imap(inform=tuple(TermValue(*pair) for pair in pairs)))


def test_the_most_frequent_value_of_the_other_labels_is_the_response() -> None:
    items = [
        item("a", ("test", "blood count")),  # the others say blood count twice: 1 + 1
        item("b", ("test", "Blood count."), ("test", "x-ray")),  # one of two values found: 1/2 + 1
        item("c", ("test", "blood count"), ("diet", "less salt")),  # no other label has a diet: 1 + 1 for the test
        item("d", ("test", "MRI")),  # another value: 0
        item("e", ("rest", "two days"), terms=("rest",)),  # a rare term is not right by itself
    ]
    assert majority_scores(items) == [Fraction(2), Fraction(3, 2), Fraction(2), Fraction(0), Fraction(0)]


def test_trials_of_an_item_count_once_and_nothing_is_zero() -> None:
    trial = item("a", ("test", "x"))
    assert majority_scores([trial, trial]) == [0, 0], "the other trial's label is the item's own"
    assert majority_scores([trial, item("b", ("test", "x"), terms=("diet",))]) == [2, 0], "a term that is not asked for"
    assert majority_scores([]) == []
