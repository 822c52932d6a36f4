from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import SpecError
from paceline.spec.stop import StopRule, first_that_holds, limiting_rule


def holds(rules: list[str], **now: float | None) -> str | None:
    state: dict[str, float | None] = {"update": 0, "seconds": 0.0, "updates_per_epoch": 600, **now}
    rule = first_that_holds([StopRule.parse(text) for text in rules], **state)  # type: ignore[arg-type]
    return str(rule) if rule else None


def test_each_rule_holds_when_its_figure_is_there() -> None:
    assert holds(["steps=100"], update=99) is None
    assert holds(["steps=100"], update=100) == "steps=100"
    assert holds(["epochs=2"], update=1199) is None
    assert holds(["epochs=2"], update=1200) == "epochs=2"
    assert holds(["seconds=1.5"], seconds=1.5) == "seconds=1.5"
    assert holds(["loss=0.35"], loss=0.36) is None
    assert holds(["loss=0.35"], loss=0.35) == "loss=0.35"
    assert holds(["accuracy=0.9"], accuracy=0.91) == "accuracy=0.9"


def test_quality_rules_wait_for_an_evaluation() -> None:
    assert holds(["loss=0.35", "accuracy=0.9"], update=10**6, seconds=1e6) is None


def test_the_first_rule_that_holds_wins() -> None:
    assert holds(["loss=0.35", "steps=10"], update=10, loss=0.5) == "steps=10"


def test_counted_rules_give_a_limit_known_beforehand() -> None:
    rules = [StopRule.parse("steps=5000"), StopRule.parse("epochs=2"), StopRule.parse("loss=0.1")]
    assert limiting_rule(rules, updates_per_epoch=600) == (1200, rules[1])
    assert limiting_rule([StopRule.parse("seconds=3")], updates_per_epoch=600) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("steps", "steps=2000"),
        ("stepz=1", "steps"),
        ("steps=many", "not a number"),
        ("steps=-5", "above 0"),
        ("steps=0", "above 0"),
        ("steps=1.5", "whole"),
        ("accuracy=92", "0.92"),
        ("loss=nan", "above 0"),
        ("seconds=inf", "finite"),
    ],
)
def test_a_bad_rule_is_refused_with_what_would_be_right(text: str, says: str) -> None:
    with pytest.raises(SpecError, match=says) as refused:
        StopRule.parse(text)
    assert "\n" not in str(refused.value)


@given(st.text(max_size=30))
def test_any_text_is_a_rule_or_a_spec_error(text: str) -> None:
    try:
        rule = StopRule.parse(text)
    except SpecError:
        return
    assert StopRule.parse(str(rule)).kind == rule.kind


@given(st.sampled_from(["loss", "seconds"]), st.floats(1e-6, 1e6))
def test_a_rule_written_down_reads_as_the_same(kind: Literal["loss", "seconds"], value: float) -> None:
    rule = StopRule(kind, float(f"{value:.12g}"))
    assert StopRule.parse(str(rule)) == rule
