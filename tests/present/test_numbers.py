from paceline.present.numbers import (
    accuracy,
    count,
    decimals,
    median_and_range,
    milliseconds,
    number,
    percent,
    phase_shares,
    seconds,
    traffic,
)


def test_numbers_have_three_significant_digits() -> None:
    assert [number(x) for x in (12345.6, 123.4, 12.34, 1.234, 0.01234, 0)] == [
        "12,346", "123", "12.3", "1.23", "0.0123", "0.00",
    ]  # fmt: skip


def test_a_missing_value_is_a_dash() -> None:
    assert {number(None), number(float("nan")), seconds(None), accuracy(None), traffic(0.001)} == {"-"}


def test_decimals_have_the_requested_number_of_digits() -> None:
    assert decimals(0.34399, 4) == "0.3440"
    assert decimals(51_000.0, 0) == "51,000"
    assert decimals(1234.5, None) == number(1234.5)


def test_a_duration_of_a_second_or_more_is_in_seconds() -> None:
    assert [milliseconds(seconds) for seconds in (0.00030, 0.0246, 0.9994, 0.9996, 2.457)] == [
        "0.3 ms", "24.6 ms", "999 ms", "1.00 s", "2.46 s",
    ]  # fmt: skip


def test_percentages_have_a_space_before_the_sign() -> None:
    assert (percent(0.786), percent(0.0123, digits=1), accuracy(0.90625)) == ("79 %", "1.2 %", "90.62 %")


def test_a_range_has_as_many_digits_as_the_median() -> None:
    assert median_and_range(1.24, 1.1, 1.4567) == "1.24 [1.10–1.46]"
    assert median_and_range(193_666.4, 165_005.0, 202_001.2) == "193,666 [165,005–202,001]"
    assert median_and_range(0.344, 0.344, 0.34403, digits=4) == "0.3440"


def test_nouns_agree_with_their_count() -> None:
    assert (count(1, "run"), count(1_200, "run")) == ("1 run", "1,200 runs")


def test_phases_are_shown_as_shares_the_largest_first() -> None:
    assert phase_shares({"pull": 1.0, "compute": 2.99, "data": 0.01}) == "compute 75 %, pull 25 %"
    assert phase_shares({"pull": 1.0, "compute": 3.0}, most=1) == "compute 75 %"
    assert phase_shares({}) == "-"
