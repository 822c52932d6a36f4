"""Optimizers, schedules and groups as users write them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import SpecError
from paceline.spec.optimizer import KINDS, OptimizerText, TrainingText, describe, parse_groups, resolve
from paceline.spec.schedule import Schedule


def made(run: TrainingText, workload: TrainingText | None = None, last_update: int | None = 100) -> object:
    return resolve(run, workload or TrainingText(lr=0.1), last_update=last_update)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("adm", "did you mean adam"),
        ("adam:beta3=1", "setting 'beta3'"),
        ("adam:beta1=1", "beta1 must be from 0 to below 1"),
        ("adam:beta1", "'beta1' must be name=number"),
        ("adam:", "must be name=number"),
        ("adam:epsilon=nan", "epsilon must be a number, 0 or more"),
        ("sgd:momentum=0.9", "setting 'momentum'"),
    ],
)
def test_an_optimizer_that_does_not_exist_is_refused_in_one_line(text: str, line: str) -> None:
    with pytest.raises(SpecError, match=line) as refused:
        OptimizerText.parse(text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("cosinus", "did you mean cosine"),
        ("step", "every is missing"),
        ("step:every=0", "every must be a number of updates"),
        ("cosine:updates=1.5", "updates must be a number of updates"),
        ("cosine:updates=10:warmup=10", "warmup must be below updates"),
        ("constant:updates=5", "setting 'updates'"),
    ],
)
def test_a_schedule_that_does_not_exist_is_refused_in_one_line(text: str, line: str) -> None:
    with pytest.raises(SpecError, match=line):
        Schedule.parse(text)


@pytest.mark.parametrize("text", ["*bias", ":lr_scale=1", "*bias:momentum=1", ""])
def test_groups_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(SpecError, match="param_groups"):
        parse_groups(text)


def test_the_first_matching_group_counts_and_a_group_without_parameters_is_refused() -> None:
    optimizer = resolve(
        TrainingText(optimizer="adamw:weight_decay=0.2", param_groups="0.bias:lr_scale=3 *bias:weight_decay=0"),
        TrainingText(),
        last_update=None,
    )
    found = {name: optimizer.settings_for(name) for name in ("0.bias", "1.bias", "0.weight")}
    assert [(one.lr_scale, one.weight_decay) for one in found.values()] == [(3.0, 0.2), (1.0, 0.0), (1.0, 0.2)]
    with pytest.raises(SpecError, match=r"no parameter matches '0\.bias': the names are 1\.bias"):
        optimizer.check_groups(["1.bias"])


@pytest.mark.parametrize(
    ("run", "workload", "kind", "lr", "momentum"),
    [
        (TrainingText(), TrainingText(lr=0.3), "sgd", 0.3, 0.0),
        (TrainingText(), TrainingText(lr=0.3, momentum=0.8), "momentum", 0.3, 0.8),
        (TrainingText(momentum=0.5), TrainingText(lr=0.3), "momentum", 0.3, 0.5),
        (TrainingText(momentum=0.0), TrainingText(lr=0.3, momentum=0.8), "momentum", 0.3, 0.0),
        (TrainingText(optimizer="sgd"), TrainingText(lr=0.3, momentum=0.8), "sgd", 0.3, 0.0),
        (TrainingText(optimizer="nesterov", momentum=0.5), TrainingText(lr=0.3), "nesterov", 0.3, 0.5),
        (TrainingText(optimizer="adam"), TrainingText(lr=0.3), "adam", 0.001, 0.0),
        (TrainingText(optimizer="adam", lr=0.2), TrainingText(lr=0.3), "adam", 0.2, 0.0),
        (TrainingText(), TrainingText(lr=0.02, optimizer="adamw"), "adamw", 0.02, 0.0),
        (TrainingText(optimizer="adam"), TrainingText(lr=0.02, optimizer="adamw"), "adam", 0.02, 0.0),
        (TrainingText(optimizer="sgd"), TrainingText(lr=0.02, optimizer="adamw"), "sgd", 0.01, 0.0),
    ],
)
def test_what_the_run_says_comes_before_the_workload(
    run: TrainingText, workload: TrainingText, kind: str, lr: float, momentum: float
) -> None:
    """The learning rate of the workload counts only for optimizers that need about the same."""
    optimizer = resolve(run, workload, last_update=None)
    assert (optimizer.kind, optimizer.lr, optimizer.momentum) == (kind, lr, momentum)


def test_momentum_of_an_optimizer_without_momentum_is_refused() -> None:
    with pytest.raises(SpecError, match="optimizer adam has none"):
        made(TrainingText(optimizer="adam", momentum=0.9))


@pytest.mark.parametrize("shape", ["cosine", "linear"])
def test_a_schedule_ends_with_the_run_unless_its_end_is_given(shape: str) -> None:
    assert Schedule.parse(shape).ending_at(50).at(50) == pytest.approx(0.0)
    assert Schedule.parse(f"{shape}:updates=20:floor=0.25").ending_at(50).at(20) == 0.25
    with pytest.raises(SpecError, match="must know its number of updates"):
        Schedule.parse(shape).ending_at(None)
    with pytest.raises(SpecError, match="warmup of 60 updates is not below the 50"):
        Schedule.parse(f"{shape}:warmup=60").ending_at(50)


@given(
    st.sampled_from(["constant", "step:every=7:factor=0.5", "cosine:updates=90:floor=0.1", "linear:updates=90"]),
    st.integers(1, 30),
)
def test_the_rate_grows_in_the_warm_up_and_never_again(text: str, warmup: int) -> None:
    schedule = Schedule.parse(f"{text}:warmup={warmup}")
    factors = [schedule.at(update) for update in range(120)]
    assert factors[:warmup] == [(update + 1) / warmup for update in range(warmup)]
    later = factors[warmup:]
    assert all(0 <= factor <= 1 for factor in factors)
    assert later == sorted(later, reverse=True)


def test_cosine_is_half_way_in_the_middle() -> None:
    schedule = Schedule.parse("cosine:updates=110:warmup=10")
    assert schedule.at(10) == 1.0
    assert math.isclose(schedule.at(60), 0.5)
    assert schedule.at(1000) == pytest.approx(0.0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_description_of_an_optimizer_makes_the_same_one(kind: str) -> None:
    optimizer = resolve(TrainingText(optimizer=f"{kind}:weight_decay=0.25"), TrainingText(lr=0.1), last_update=None)
    assert describe(optimizer) == f"{kind}:weight_decay=0.25"
    assert resolve(TrainingText(optimizer=kind), TrainingText(), last_update=None).kind == describe(
        resolve(TrainingText(optimizer=kind), TrainingText(), last_update=None)
    )
