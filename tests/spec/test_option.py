"""Every option is declared completely, keeps its own limits, and is refused by its name beyond them."""

from typing import Any

import msgspec
import pytest

from paceline.errors import SpecError
from paceline.spec.experiment import AXES, OPTIONS, Experiment, RunSpec
from paceline.spec.load import experiment
from paceline.spec.option import Option
from paceline.spec.sweep import expand, key

NUMBERS = [option for option in OPTIONS.values() if option.base_type in (int, float)]


@pytest.mark.parametrize("option", OPTIONS.values(), ids=OPTIONS)
def test_an_option_says_what_it_is_and_what_happens_without_it(option: Option) -> None:
    assert option.help.endswith(".")
    assert option.required or option.default is not None or option.unset


def test_every_field_of_a_spec_is_an_option() -> None:
    assert set(RunSpec.__struct_fields__) | set(Experiment.__struct_fields__) == {*OPTIONS, "run", "axes"}


def test_the_defaults_are_what_one_gets_by_asking_for_them() -> None:
    asked = {name: option.default for name, option in OPTIONS.items() if not option.required}
    assert experiment({"workload": "logreg", **asked}) == experiment({"workload": "logreg"})


def test_an_unset_option_is_that_of_the_run_spec() -> None:
    (run,) = expand(experiment({"workload": "logreg"}))
    assert run == RunSpec(workload="logreg")


def outside(option: Option) -> list[float]:
    found: list[float] = []
    found += [] if option.least is None else [option.least - 1]
    found += [] if option.most is None else [option.most + 1]
    found += [] if option.above is None else [option.above]
    found += [] if option.below is None else [option.below]
    return found


@pytest.mark.parametrize("option", NUMBERS, ids=lambda option: option.name)
def test_a_number_outside_its_limits_is_refused_with_the_limits(option: Option) -> None:
    assert outside(option)
    for number in outside(option):
        with pytest.raises(SpecError, match=f"^{option.label} .*: must be {option.allowed}$"):
            experiment({"workload": "logreg", option.name: number})


@pytest.mark.parametrize("option", NUMBERS, ids=lambda option: option.name)
@pytest.mark.parametrize("text", ["many", "nan", "inf", "9" * 400])
def test_a_number_that_is_none_is_refused_by_the_name_of_its_option(option: Option, text: str) -> None:
    with pytest.raises(SpecError, match=f"^{option.label} "):
        experiment({"workload": "logreg", option.name: text})


@pytest.mark.parametrize("name", [name for name, option in OPTIONS.items() if option.choices])
def test_a_choice_that_is_none_is_refused_with_the_nearest(name: str) -> None:
    choices = OPTIONS[name].choices
    for choice in choices:
        assert getattr(experiment({"workload": "logreg", name: choice}).run, name) == choice
    with pytest.raises(SpecError, match=f"did you mean {choices[0]}"):
        experiment({"workload": "logreg", name: f"{choices[0]}s"})


VALUES: dict[str, list[Any]] = {
    "size": ["small", "large"], "layout": ["pw w", "p w w"], "checkpoint_every": [500, "30s"],
    "on_failure": ["fail", "restart"], "link": ["1gbit", "10mbit -"], "latency": ["1ms", "2ms -"], "cpus": [0.5, "1 -"],
    "lr": [0.1, 0.2], "momentum": [0, 0.9], "transport": ["memory", "tcp"], "record": [True, False],
}  # fmt: skip


@pytest.mark.parametrize("name", AXES)
def test_a_list_is_an_axis(name: str) -> None:
    values = VALUES.get(name, ["a", "b"] if OPTIONS[name].base_type is str else [1, 2])
    runs = expand(experiment({"workload": "logreg", name: values}))
    in_text = expand(experiment({"workload": "logreg", name: ",".join(str(value) for value in values)}))
    assert runs == in_text
    assert len({getattr(run, name) for run in runs}) == 2


def test_ranges_and_tuples_are_lists_too() -> None:
    made = [experiment({"workload": "logreg", "seed": seeds}) for seeds in ([1, 2, 3], (1, 2, 3), range(1, 4), "1,2,3")]
    assert all(one == made[0] for one in made)


def test_the_key_of_a_run_is_what_it_was_when_earlier_sweeps_were_stored() -> None:
    assert key(RunSpec(workload="logreg")) == "24c9072b3581c64d"
    assert key(msgspec.structs.replace(RunSpec(workload="logreg"), batch=10)) != "24c9072b3581c64d"
