from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import SpecError
from paceline.spec.load import experiment, load_toml, parse_assignments, split_list
from paceline.spec.stop import StopRule
from paceline.spec.sweep import expand


def test_flags_toml_and_keywords_give_equal_experiments(tmp_path: Path) -> None:
    file = tmp_path / "spec.toml"
    file.write_text(
        """
        workload = "logreg"
        engine = ["torch", "tensorflow"]
        batch = [100, 200]
        lr = 0.5
        stop = { steps = 2000, loss = 0.35 }
        """
    )
    from_flags = experiment(
        {
            "workload": ["logreg"],
            "engine": split_list("torch,tensorflow"),
            "batch": split_list("100,200"),
            "stop": ["steps=2000", "loss=0.35"],
            **parse_assignments(["lr=0.5"]),
        }
    )
    from_python = experiment(
        {
            "workload": "logreg",
            "engine": ["torch", "tensorflow"],
            "batch": [100, 200],
            "lr": 0.5,
            "stop": [StopRule("steps", 2000), StopRule("loss", 0.35)],
        }
    )
    assert experiment(load_toml(file)) == from_flags == from_python


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "no workload"),
        ({"batch": 0}, "batch 0: must be 1 or more"),
        ({"batch": "ten"}, "batch"),
        ({"batch": []}, "empty"),
        ({"bach": 1}, "did you mean batch"),
        ({"repeat": 0}, "repeat 0"),
        ({"seed": -1}, "seed -1"),
        ({"lr": -0.1}, "lr -0.1"),
        ({"cpus": 0}, "cpus 0"),
        ({"link": "fast"}, "100mbit"),
        ({"name": "No Spaces"}, "a-z"),
        ({"name": "../up"}, "a-z"),
        ({"sample_hz": 5000}, "sample_hz"),
        ({"eval_every": -1}, "eval-every -1"),
        ({"stop": []}, "list of stop rules is empty"),
        ({"executor_memory": "300m"}, "must be 512m or more"),
    ],
)
def test_invalid_value_is_refused_in_one_line(fields: dict[str, Any], message: str) -> None:
    all_fields = {"workload": "logreg", **fields} if fields else {}
    with pytest.raises(SpecError, match=message) as refusal:
        experiment(all_fields)
    assert "\n" not in str(refusal.value)


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("workload = [")
    with pytest.raises(SpecError, match="not valid TOML"):
        load_toml(broken)
    with pytest.raises(SpecError, match="cannot read"):
        load_toml(tmp_path / "missing.toml")
    broken.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match="not valid TOML"):
        load_toml(broken)


def test_empty_list_item_and_malformed_set_option_are_refused() -> None:
    with pytest.raises(SpecError, match="empty item"):
        split_list("a,,b")
    with pytest.raises(SpecError, match="name=value"):
        parse_assignments(["lr"])
    with pytest.raises(SpecError, match="did you mean threads"):
        parse_assignments(["thread=1"])


_VALUES = st.one_of(st.integers(), st.floats(), st.text(max_size=10), st.none(), st.lists(st.integers(), max_size=3))


@given(st.dictionaries(st.sampled_from(["workload", "batch", "engine", "lr", "stop", "seed", "cpus", "link"]), _VALUES))
def test_any_fields_give_an_experiment_or_a_one_line_spec_error(fields: dict[str, Any]) -> None:
    try:
        result = experiment(fields)
    except SpecError as error:
        assert "\n" not in str(error)
    else:
        assert all(run.batch >= 1 for run in expand(result))
