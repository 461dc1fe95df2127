"""Budgets: how they are written, what they say of each kind, and the smaller and larger ones."""

from __future__ import annotations

import copy
import pickle
from itertools import islice, product

import pytest

from leasehold.faults.model import DEFAULT, Budget, BudgetError
from leasehold.faults.model.budget import deepening
from leasehold.faults.model.catalogue import BudgetUnit, budgeted, catalogue

COUNTED = {"crash", "power_cut", "halt", "duplicate", "lose", "reorder", "partition", "amnesia"}
ANY = {"duplicate", "lose", "reorder"}
LASTS = {"halt", "skew", "drift", "byzantine"}


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("crash=2,duplicate=1", {"crash": 2, "duplicate": 1}),
        (" duplicate = 1 , crash = 2 ", {"crash": 2, "duplicate": 1}),
        ("lose=any", {"lose": "any"}),
        ("crash=99", {"crash": 99}),
        ("crash=0,lose=1", {"lose": 1}),
        ("crash=0", {}),
        ("byzantine=broker,skew=1", {"skew": 1, "byzantine": "broker"}),
        ("drift=25,crash=1,skew=1", {"crash": 1, "skew": 1, "drift": 25}),
        ("drift=99", {"drift": 99}),
        ("drift=0", {}),
        ("none", {}),
        (" none ", {}),
        ("default", {"crash": 2, "duplicate": 1, "lose": 1}),
        (" default ", {"crash": 2, "duplicate": 1, "lose": 1}),
    ],
)
def test_what_is_a_budget(text: str, given: dict[str, int | str]) -> None:
    budget = Budget.parse(text)
    assert list(budget.given.items()) == list(given.items()), "in the order of the catalogue, without what is 0"
    assert Budget.parse(str(budget)) == budget


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no fault in an empty text; write `none`"),
        ("  ", "no fault in an empty text"),
        ("crsh=1", "there is no fault 'crsh'; did you mean crash?"),
        ("xyzzy=1", r"there is no fault 'xyzzy' \(faults: crash"),
        ("crash=1,,lose=1", "there is no fault ''"),
        ("crash=1,crash=2", "crash is given twice"),
        ("crash=0,crash=2", "crash is given twice"),
        ("none,crash=1", "`none` stands alone"),
        ("crash=1,default", "`default` stands alone"),
        ("deep", "there is no fault 'deep'; `leasehold crash deep SYSTEM` tries"),
        ("delay=1", "there is no fault 'delay'"),
        ("crash", "crash needs a number from 0 to 99, as in crash=1, not ''"),
        ("crash=-1", "crash needs a number"),
        ("crash=100", "crash needs a number"),
        ("crash=any", "crash needs a number from 0 to 99, as in"),
        ("skew=any", "skew needs a number from 0 to 99, as in"),
        ("drift=100", "drift needs a whole percentage from 0 to 99, as in drift=25, not '100'"),
        ("drift=-1", "drift needs a whole percentage from 0 to 99, as in drift=25, not '-1'"),
        ("drift=2.5", "drift needs a whole percentage"),
        ("drift=25%", "drift needs a whole percentage"),
        ("drift=any", "drift needs a whole percentage"),
        ("drift", "drift needs a whole percentage"),
        ("drit=25", "there is no fault 'drit'; did you mean drift?"),
        ("crash=²", "crash needs a number"),
        ("crash=٣", "crash needs a number"),
        ("lose=many", "lose needs a number from 0 to 99 or `any`"),
        ("byzantine=1", "byzantine needs the name of a role"),
        ("byzantine=", "byzantine needs the name of a role"),
    ],
)
def test_what_is_no_budget(text: str, words: str) -> None:
    with pytest.raises(BudgetError, match=words):
        Budget.parse(text)


def test_each_kind_is_an_attribute() -> None:
    budget = Budget(crash=1, byzantine="broker", lose="any")
    assert (budget.crash, budget.lose, budget.byzantine, budget.halt, budget.skew) == (1, "any", "broker", 0, 0)
    assert Budget().byzantine == ""
    for name in ("krash", "delay", "_crash", "__len__"):
        with pytest.raises(AttributeError):
            getattr(budget, name)
    with pytest.raises(TypeError, match="there is no fault krash"):
        Budget(krash=1)
    for made in (copy.deepcopy(budget), pickle.loads(pickle.dumps(budget))):
        assert made == budget


def test_equal_budgets_are_one() -> None:
    assert Budget(crash=1, lose=2) == Budget(lose=2, crash=1, halt=0)
    assert hash(Budget(crash=1, lose=2)) == hash(Budget(lose=2, crash=1))
    assert Budget(crash=1) != Budget(crash=2)
    assert Budget(crash=1) != {"crash": 1}
    assert (str(Budget()), str(Budget(lose="any", crash=1))) == ("none", "crash=1,lose=any")


@pytest.mark.parametrize("name", budgeted())
def test_what_a_budget_says_of_each_kind(name: str) -> None:
    """Which are counted, which may have no limit, and which are over when faults stop."""
    fault = budgeted()[name]
    value: int | str = "broker" if fault.unit is BudgetUnit.ROLE else 3
    budget = Budget(**{name: value})
    assert budget.limits == ({name: 3} if name in COUNTED else {})
    assert budget.unlimited == frozenset()
    assert budget.passes == (name not in LASTS)
    if name in ANY:
        without = Budget.parse(f"{name}=any")
        assert (without.limits, without.unlimited) == ({}, {name})
    elif fault.unit is not BudgetUnit.ROLE:
        with pytest.raises(BudgetError):
            Budget.parse(f"{name}=any")
    assert budget.with_more(**{name: fault.nothing}) == Budget()
    assert fault.counted == (name in COUNTED)


def test_a_role_may_be_called_any() -> None:
    budget = Budget.parse("crash=1,byzantine=any")
    assert (budget.limits, budget.unlimited) == ({"crash": 1}, frozenset())
    assert [str(b) for b in budget.weaker()] == ["crash=1", "byzantine=any"]
    assert [str(b) for b in budget.parts()] == ["crash=1,byzantine=any"]


def test_the_default() -> None:
    assert Budget.parse("crash=2,duplicate=1,lose=1") == DEFAULT


def test_what_needs_no_budget_is_in_none() -> None:
    assert {fault.name for fault in catalogue()} - {*budgeted()} == {"delay", "recovering"}
    assert Budget().passes


def test_with_more_changes_what_is_named() -> None:
    assert Budget(crash=1, lose=1).with_more(lose=2, skew=1) == Budget(crash=1, lose=2, skew=1)


@pytest.mark.parametrize("text", ["crash=2", "crash=2,lose=1", "crash=1,lose=any,skew=1,byzantine=x", "none"])
def test_weaker_budgets_are_all_with_fewer_faults_the_weakest_first(text: str) -> None:
    """Against the product of all values."""
    budget = Budget.parse(text)

    def values(name: str, value: int | str) -> list[int | str]:
        if value == "any":
            return [0, 1, "any"]
        return [*range(value + 1)] if isinstance(value, int) else ["", value]

    names = list(budget.given)
    every = [
        Budget(**dict(zip(names, chosen, strict=True)))
        for chosen in product(*(values(*item) for item in budget.given.items()))
    ]
    found = list(budget.weaker())
    assert set(found) == set(every) - {budget, Budget()}
    assert len(found) == len(set(found))

    def size(some: Budget) -> int:
        return sum(99 if v == "any" else v if isinstance(v, int) else 1 for v in some.given.values())

    assert [size(some) for some in found] == sorted(size(some) for some in found)


def test_of_weaker_budgets_with_as_many_faults_those_of_the_first_kinds_come_first() -> None:
    assert [str(b) for b in Budget.parse("crash=2,lose=1").weaker()] == [
        "crash=1",
        "lose=1",
        "crash=2",
        "crash=1,lose=1",
    ]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("crash=2,duplicate=1", ["crash=1", "crash=1,duplicate=1", "crash=2,duplicate=1"]),
        ("crash=2,lose=any,skew=1", ["crash=1,skew=1", "crash=1,lose=any,skew=1", "crash=2,lose=any,skew=1"]),
        ("lose=any", ["lose=any"]),
        ("skew=2", ["skew=2"]),
        ("crash=1,drift=25", ["crash=1,drift=25"]),
        ("byzantine=x,crash=1", ["crash=1,byzantine=x"]),
        ("none", ["none"]),
    ],
)
def test_parts_of_a_budget(text: str, parts: list[str]) -> None:
    assert [str(b) for b in Budget.parse(text).parts()] == parts


def test_deepening_has_one_fault_more_each_time_until_there_are_as_many_as_can_be_said() -> None:
    first = [str(b) for b in islice(deepening(), 7)]
    assert first == [
        "crash=2,duplicate=1,lose=1",
        "crash=2,power_cut=1,duplicate=1,lose=1",
        "crash=2,power_cut=1,duplicate=1,lose=1,reorder=1",
        "crash=3,power_cut=1,duplicate=1,lose=1,reorder=1",
        "crash=3,power_cut=1,duplicate=1,lose=2,reorder=1",
        "crash=3,power_cut=1,duplicate=2,lose=2,reorder=1",
        "crash=3,power_cut=2,duplicate=2,lose=2,reorder=1",
    ]
    every = list(deepening())
    totals = [sum(b.limits.values()) for b in every]
    assert totals == list(range(totals[0], totals[0] + len(every)))
    assert every[0] == DEFAULT
    assert max(every[-1].limits.values()) == 99
    for budget in (every[0], every[-1]):
        assert Budget.parse(str(budget)) == budget
