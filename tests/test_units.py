"""Parsing quantities with units, and formatting numbers."""

import pytest

from paceline import units
from paceline.errors import SpecError


def test_rates_and_durations_are_parsed() -> None:
    assert units.bits_per_second("100mbit") == 100_000_000
    assert units.bits_per_second("1Gbit") == 10**9
    assert units.bits_per_second("15.5 kbit") == 15_500
    assert units.seconds("5ms") == pytest.approx(0.005)


@pytest.mark.parametrize(("text", "limit_s"), [("90s", 90.0), ("30m", 1800.0), ("30 min", 1800.0), ("1.5h", 5400.0)])
def test_time_limits_are_parsed_and_written_as_they_can_be_read(text: str, limit_s: float) -> None:
    assert units.time_limit(text) == limit_s == units.time_limit(units.duration_text(limit_s))


@pytest.mark.parametrize("text", ["", "soon", "100", "0s", "500ms", "-1h", "1d", "9999h"])
def test_an_invalid_time_limit_is_rejected_in_one_line(text: str) -> None:
    with pytest.raises(SpecError, match=r"from 1s to 8760h, e\.g\. 90s, 30m or 2h$") as refusal:
        units.time_limit(text)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("text", ["", "fast", "100", "100mb", "-1mbit", "0mbit", "1bit", "1000gbit"])
def test_an_invalid_rate_is_rejected(text: str) -> None:
    with pytest.raises(SpecError, match="bit"):
        units.bits_per_second(text)


@pytest.mark.parametrize(("text", "fraction"), [("5%", 0.05), (" 2.5 % ", 0.025), ("0.05", 0.05), ("0", 0.0)])
def test_fractions_are_parsed(text: str, fraction: float) -> None:
    assert units.fraction(text) == pytest.approx(fraction)


@pytest.mark.parametrize("text", ["", "%", "-5%", "five", "5%%", "1e-2"])
def test_an_invalid_fraction_is_rejected(text: str) -> None:
    with pytest.raises(SpecError, match="5% or 0"):
        units.fraction(text)
