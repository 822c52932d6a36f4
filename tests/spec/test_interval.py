import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import SpecError
from paceline.spec.interval import Interval


@pytest.mark.parametrize(
    ("text", "unit", "value"), [("500", "updates", 500), ("30s", "seconds", 30), ("250ms", "seconds", 0.25)]
)
def test_updates_and_times(text: str, unit: str, value: float) -> None:
    assert Interval.parse(text) == Interval(unit, value)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["0", "-5", "1.5", "5m", "", "0s", "²", "9" * 40])
def test_anything_else_is_refused_with_what_would_be_right(text: str) -> None:
    with pytest.raises(SpecError, match="500, or a time, 30s"):
        Interval.parse(text)


@given(st.text(max_size=20))
def test_no_text_does_worse_than_that(text: str) -> None:
    try:
        assert Interval.parse(text).value > 0
    except SpecError:
        pass
