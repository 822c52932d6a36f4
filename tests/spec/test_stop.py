import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import SpecError
from paceline.spec.stop import TARGETS, Improvement, StopRule, first_met_rule, limiting_rule


def met(rules: list[str], **progress: float | None) -> str | None:
    """The text of the first rule that is met at this progress of a run."""
    qualities = {name: progress.pop(name) for name in TARGETS if name in progress} or None
    state: dict[str, float | None] = {"update": 0, "seconds": 0.0, "updates_per_epoch": 600, **progress}
    parsed = [StopRule.parse(text) for text in rules]
    rule = first_met_rule(parsed, qualities=qualities, **state)  # type: ignore[arg-type]
    return str(rule) if rule else None


def test_each_rule_is_met_when_its_value_is_reached() -> None:
    assert met(["steps=100"], update=99) is None
    assert met(["steps=100"], update=100) == "steps=100"
    assert met(["epochs=2"], update=1199) is None
    assert met(["epochs=2"], update=1200) == "epochs=2"
    assert met(["seconds=1.5"], seconds=1.5) == "seconds=1.5"
    assert met(["loss=0.35"], loss=0.36) is None
    assert met(["loss=0.35"], loss=0.35) == "loss=0.35"
    assert met(["accuracy=0.9"], accuracy=0.91) == "accuracy=0.9"
    assert met(["perplexity=12"], perplexity=12.5) is None
    assert met(["perplexity=12"], perplexity=11.5) == "perplexity=12"
    assert met(["top5=0.9"], top5=0.89) is None
    assert met(["auc=0.9", "top5=0.9"], auc=0.9) == "auc=0.9"


def test_a_metric_of_the_workload_is_reached_in_the_direction_that_it_declares() -> None:
    rules, progress = [StopRule.parse("f1=0.8")], {"update": 0, "seconds": 0.0, "updates_per_epoch": 1}
    for value, falling, expected in [(0.9, (), True), (0.7, (), False), (0.9, ("f1",), False), (0.7, ("f1",), True)]:
        rule = first_met_rule(rules, qualities={"f1": value}, falling=falling, **progress)  # type: ignore[arg-type]
        assert (rule is not None) == expected
    assert StopRule.parse("log-likelihood=-2.5").value == -2.5
    assert rules[0].is_target
    assert not StopRule.parse("plateau=3").is_target


def test_a_plateau_is_reached_after_evaluations_without_a_new_lowest_loss() -> None:
    improvement = Improvement()
    counts = [improvement.add(loss) for loss in (0.9, 0.8, 0.8, 0.85, float("nan"), 0.79, 0.79)]
    assert counts == [0, 0, 1, 2, 3, 0, 1]
    assert met(["plateau=3"], since_best_loss=2, loss=0.8) is None
    assert met(["plateau=3"], since_best_loss=3, loss=0.8) == "plateau=3"
    assert met(["plateau=3"], update=10**6, seconds=1e6) is None


@given(st.lists(st.floats(allow_nan=True)), st.integers(1, 20))
def test_no_evaluation_of_a_plateau_is_better_than_the_best_before_it(losses: list[float], patience: int) -> None:
    improvement = Improvement()
    for number, loss in enumerate(losses, 1):
        if improvement.add(loss) >= patience:
            before, plateau = losses[: number - patience], losses[number - patience : number]
            assert not any(late < early for late in plateau for early in before if early == min(before))


def test_loss_and_accuracy_rules_need_an_evaluation() -> None:
    assert met(["loss=0.35", "accuracy=0.9"], update=10**6, seconds=1e6) is None


def test_first_rule_that_is_met_ends_the_run() -> None:
    assert met(["loss=0.35", "steps=10"], update=10, loss=0.5) == "steps=10"


def test_steps_and_epochs_rules_give_the_last_update() -> None:
    rules = [StopRule.parse("steps=5000"), StopRule.parse("epochs=2"), StopRule.parse("loss=0.1")]
    assert limiting_rule(rules, updates_per_epoch=600) == (1200, rules[1])
    assert limiting_rule([StopRule.parse("seconds=3")], updates_per_epoch=600) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("steps", "steps=2000"),
        ("st epz=1", "steps"),
        ("f1=inf", "finite"),
        ("steps=many", "not a number"),
        ("steps=-5", "above 0"),
        ("steps=0", "above 0"),
        ("steps=1.5", "whole"),
        ("accuracy=92", "0.92"),
        ("loss=nan", "above 0"),
        ("seconds=inf", "finite"),
        ("plateau=0", "above 0"),
        ("plateau=2.5", "whole"),
        ("plateau", "kind=value"),
    ],
)
def test_invalid_rule_is_refused_with_what_is_allowed(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message) as refusal:
        StopRule.parse(text)
    assert "\n" not in str(refusal.value)


@given(st.text(max_size=30))
def test_any_text_gives_a_rule_or_a_spec_error(text: str) -> None:
    try:
        rule = StopRule.parse(text)
    except SpecError:
        return
    assert StopRule.parse(str(rule)).kind == rule.kind


@given(st.sampled_from(["loss", "seconds"]), st.floats(1e-6, 1e6))
def test_rule_written_as_text_parses_as_equal(kind: str, value: float) -> None:
    rule = StopRule(kind, float(f"{value:.12g}"))
    assert StopRule.parse(str(rule)) == rule
