"""Every option is declared completely, and a value outside its limits is refused with the option's name."""

from typing import Any

import msgspec
import pytest

from paceline.errors import SpecError
from paceline.spec.experiment import AXES, OPTIONS, Experiment
from paceline.spec.load import experiment
from paceline.spec.option import Option
from paceline.spec.run_options import RunSpec
from paceline.spec.sweep import expand, key

NUMERIC_OPTIONS = [option for option in OPTIONS.values() if option.base_type in (int, float)]


@pytest.mark.parametrize("option", OPTIONS.values(), ids=OPTIONS)
def test_option_has_a_help_text_and_documents_its_default(option: Option) -> None:
    assert option.help.endswith(".")
    assert option.required or option.default is not None or option.unset


def test_every_spec_field_is_an_option() -> None:
    assert set(RunSpec.__struct_fields__) | set(Experiment.__struct_fields__) == {*OPTIONS, "run", "axes", "given"}


def test_giving_the_defaults_changes_nothing() -> None:
    defaults = {name: option.default for name, option in OPTIONS.items() if not option.required}
    assert expand(experiment({"workload": "logreg", **defaults})) == expand(experiment({"workload": "logreg"}))


def test_option_that_is_not_given_has_the_default_of_run_spec() -> None:
    (run,) = expand(experiment({"workload": "logreg"}))
    assert run == RunSpec(workload="logreg")


def values_outside_limits(option: Option) -> list[float]:
    values: list[float] = []
    values += [] if option.minimum is None else [option.minimum - 1]
    values += [] if option.maximum is None else [option.maximum + 1]
    values += [] if option.above is None else [option.above]
    values += [] if option.below is None else [option.below]
    return values


@pytest.mark.parametrize("option", NUMERIC_OPTIONS, ids=lambda option: option.name)
def test_number_outside_its_limits_is_refused_with_the_limits(option: Option) -> None:
    assert values_outside_limits(option)
    for number in values_outside_limits(option):
        with pytest.raises(SpecError, match=f"^{option.label} .*: must be {option.allowed}$"):
            experiment({"workload": "logreg", option.name: number})


@pytest.mark.parametrize("option", NUMERIC_OPTIONS, ids=lambda option: option.name)
@pytest.mark.parametrize("text", ["many", "nan", "inf", "9" * 400])
def test_text_that_is_not_a_finite_number_is_refused_with_the_option_name(option: Option, text: str) -> None:
    with pytest.raises(SpecError, match=f"^{option.label} "):
        experiment({"workload": "logreg", option.name: text})


@pytest.mark.parametrize("name", [name for name, option in OPTIONS.items() if option.choices])
def test_unknown_choice_is_refused_with_the_nearest_one(name: str) -> None:
    choices = OPTIONS[name].choices
    for choice in choices:
        assert getattr(experiment({"workload": "logreg", name: choice}).run, name) == choice
    with pytest.raises(SpecError, match=f"did you mean {choices[0]}"):
        experiment({"workload": "logreg", name: f"{choices[0]}s"})


VALUES: dict[str, list[Any]] = {
    "size": ["small", "large"], "layout": ["pw w", "p w w"], "checkpoint_every": [500, "30s"],
    "on_failure": ["fail", "restart"], "link": ["1gbit", "10mbit -"], "latency": ["1ms", "2ms -"], "cpus": [0.5, "1 -"],
    "lr": [0.1, 0.2], "momentum": [0, 0.9], "transport": ["memory", "tcp"], "record": [True, False],
    "lr_scale": ["none", "linear"], "init": ["normal:1", "uniform:-1:1"], "activation": ["relu", "tanh"],
    "shard": ["global", "worker"], "shuffle": ["all", 10], "eval_by": ["chief", "workers"], "histograms": [True, False],
    "master": ["yarn", "local[2]"], "executor_memory": ["512m", "2g"], "driver_memory": ["512m", "2g"],
    "lineage": ["grow", 20], "outer_momentum": [0, 0.9], "staleness_bound": [0, "inf"],
    "compress": ["int8", "topk:0.01"],
    "optimizer": ["sgd", "adam:beta2=0.9"], "schedule": ["cosine", "step:every=5"],
    "param_groups": ["*bias:weight_decay=0", "0.*:lr_scale=2 1.*:lr_scale=3"],
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in AXES if OPTIONS[name].cli != "launch"])
def test_list_of_values_makes_a_sweep(name: str) -> None:
    values = VALUES.get(name, ["a", "b"] if OPTIONS[name].base_type is str else [1, 2])
    runs = expand(experiment({"workload": "logreg", name: values}))
    runs_from_text = expand(experiment({"workload": "logreg", name: ",".join(str(value) for value in values)}))
    assert runs == runs_from_text
    assert len({getattr(run, name) for run in runs}) == 2


def test_range_and_tuple_are_read_like_a_list() -> None:
    lists = ([1, 2, 3], (1, 2, 3), range(1, 4), "1,2,3")
    first, *others = (experiment({"workload": "logreg", "seed": seeds}) for seeds in lists)
    assert all(other == first for other in others)


def test_run_key_matches_stored_sweeps_of_earlier_versions() -> None:
    assert key(RunSpec(workload="logreg")) == "24c9072b3581c64d"
    assert key(msgspec.structs.replace(RunSpec(workload="logreg"), batch=10)) != "24c9072b3581c64d"
