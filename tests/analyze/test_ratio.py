import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from paceline.analyze.ratio import Ratio, ratio_of_medians, student_quantile

VALUES = st.lists(st.floats(1e-3, 1e6), min_size=3, max_size=10)
STEADY = st.lists(st.floats(0.97, 1.03), min_size=3, max_size=10)


def ratio(values: list[float], base: list[float]) -> Ratio:
    found = ratio_of_medians(values, base)
    assert found is not None
    return found


@given(VALUES, VALUES)
def test_swapping_the_groups_inverts_the_ratio(values: list[float], base: list[float]) -> None:
    one, other = ratio(values, base), ratio(base, values).inverse()
    assert one.value == pytest.approx(other.value)
    assert one.low == pytest.approx(other.low)
    assert one.high == pytest.approx(other.high)


@given(VALUES, VALUES, st.floats(1e-3, 1e3))
def test_the_unit_of_the_values_does_not_matter(values: list[float], base: list[float], unit: float) -> None:
    one, other = ratio(values, base), ratio([unit * value for value in values], [unit * value for value in base])
    assert one.value == pytest.approx(other.value)
    assert one.low == pytest.approx(other.low, rel=1e-4)
    assert one.high == pytest.approx(other.high, rel=1e-4)


@given(VALUES)
def test_identical_groups_are_never_different(values: list[float]) -> None:
    found = ratio(values, list(reversed(values)))
    assert found.value == 1
    assert not found.is_significant


@given(VALUES, VALUES)
def test_the_interval_holds_the_ratio(values: list[float], base: list[float]) -> None:
    found = ratio(values, base)
    assert found.low is not None
    assert found.high is not None
    assert 0 < found.low <= found.value <= found.high < math.inf


@given(STEADY, STEADY)
def test_groups_that_are_clearly_apart_are_different(values: list[float], base: list[float]) -> None:
    found = ratio([2 * value for value in values], base)
    assert found.is_significant
    assert found.value == pytest.approx(2, rel=0.07)


def test_two_repeats_have_no_interval() -> None:
    assert not ratio([1.0, 1.1], [2.0, 2.1, 2.2]).is_known
    assert ratio([1.0, 1.1, 1.0], [2.0, 2.1, 2.2]).is_known


@given(VALUES, st.floats(1e-3, 1e6))
def test_one_repeat_has_no_interval_and_tells_nothing(values: list[float], single: float) -> None:
    for found in (ratio([single], values), ratio(values, [single]), ratio([single], [2 * single])):
        assert found.low is None
        assert not found.is_significant
        assert not found.within(1e9)


@given(st.floats(1e-3, 1e6), st.floats(1e-3, 1e6))
def test_what_comes_out_the_same_every_time_needs_no_interval(value: float, base: float) -> None:
    assume(abs(value / base - 1) > 1e-6)
    found = ratio([value] * 3, [base] * 3)
    assert found.is_significant
    assert found.low == pytest.approx(found.high)


@pytest.mark.parametrize(("values", "base"), [([], [1.0]), ([1.0], []), ([0.0], [1.0]), ([1.0], [-1.0, 2.0])])
def test_what_cannot_be_divided_has_no_ratio(values: list[float], base: list[float]) -> None:
    assert ratio_of_medians(values, base) is None


def test_students_quantile_is_that_of_the_tables() -> None:
    table = {1: 12.7062, 2: 4.3027, 3: 3.1824, 4: 2.7764, 10: 2.2281, 30: 2.0423}
    for freedom, quantile in table.items():
        assert student_quantile(0.975, freedom) == pytest.approx(quantile, rel=1e-4)


@pytest.mark.parametrize("repeats", [2, 3, 5, 10])
def test_equal_groups_are_called_different_in_less_than_one_of_twenty_cases(repeats: int) -> None:
    noise = np.exp(0.05 * np.random.default_rng(repeats).standard_normal((2_000, 2, repeats))).tolist()
    wrong = sum(ratio(values, base).is_significant for values, base in noise)
    # 5 % would be 100; by chance it is hardly ever more than three standard deviations above.
    assert wrong <= 100 + 3 * math.sqrt(100)


def test_three_repeats_show_a_fifth_more_under_noise_of_five_percent() -> None:
    noise = np.exp(0.05 * np.random.default_rng(1).standard_normal((1_000, 2, 3))).tolist()
    seen = sum(ratio([1.2 * value for value in values], base).is_significant for values, base in noise)
    assert seen > 750
