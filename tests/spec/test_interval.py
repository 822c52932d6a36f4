import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import SpecError
from paceline.spec.interval import Interval


@pytest.mark.parametrize(
    ("text", "unit", "value"), [("500", "updates", 500), ("30s", "seconds", 30), ("250ms", "seconds", 0.25)]
)
def test_plain_number_is_updates_and_number_with_unit_is_time(text: str, unit: str, value: float) -> None:
    assert Interval.parse(text) == Interval(unit, value)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["0", "-5", "1.5", "5d", "", "0s", "²", "9" * 40])
def test_invalid_interval_is_refused_with_examples(text: str) -> None:
    with pytest.raises(SpecError, match=r"e\.g\. 500, or a time above 0, e\.g\. 30s"):
        Interval.parse(text)


@given(st.text(max_size=20))
def test_any_text_gives_a_positive_interval_or_a_spec_error(text: str) -> None:
    try:
        assert Interval.parse(text).value > 0
    except SpecError:
        pass
