"""Lists of hosts: a comma may separate two kinds of hosts, or be part of the argument of one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.spec.experiment import OPTIONS
from paceline.spec.hosts import HostsChoice, join_arguments_of
from paceline.spec.load import experiment, parse_assignments, split_list

KINDS = ("local", "netns", "ssh", "slurm")


@pytest.mark.parametrize(
    ("text", "choices"),
    [
        ("local", ["local"]),
        ("local,netns", ["local", "netns"]),
        ("local,ssh:a,b", ["local", "ssh:a,b"]),
        ("ssh:gpu1,gpu2,user@gpu3:2222", ["ssh:gpu1,gpu2,user@gpu3:2222"]),
        ("ssh:a, b , local", ["ssh:a,b", "local"]),
        ("slurm:partition=cpu,time=30,ssh:a,local", ["slurm:partition=cpu,time=30", "ssh:a", "local"]),
        ("ssh:sshd,local2", ["ssh:sshd,local2"]),
        # No argument precedes it, so it is a misspelled kind, which the plan then names.
        ("local,nents", ["local", "nents"]),
        ("nents", ["nents"]),
    ],
)
def test_part_that_begins_with_no_kind_belongs_to_the_argument_before_it(text: str, choices: list[str]) -> None:
    assert join_arguments_of(split_list(text), KINDS) == choices


_WORD = st.text("abcs@=.:123", min_size=1, max_size=6).filter(lambda word: HostsChoice.parse(word).kind not in KINDS)
_ARGUMENT = st.lists(_WORD, min_size=1, max_size=4).map(",".join)
_CHOICE = st.sampled_from(KINDS) | st.builds("{}:{}".format, st.sampled_from(KINDS), _ARGUMENT)


@given(st.lists(_CHOICE, min_size=1, max_size=5))
def test_list_is_divided_into_the_choices_that_it_was_made_of(choices: list[str]) -> None:
    assert join_arguments_of(split_list(",".join(choices)), KINDS) == choices


@given(st.lists(_CHOICE | _WORD, min_size=1, max_size=6).map(",".join))
def test_nothing_of_a_list_is_lost(text: str) -> None:
    choices = join_arguments_of(split_list(text), KINDS)
    assert ",".join(choices) == text
    assert all(HostsChoice.parse(choice).kind in KINDS or ":" in choice or "," not in choice for choice in choices)


def test_only_the_option_hosts_keeps_commas() -> None:
    sweep = experiment({"workload": "logreg", "hosts": "local,netns:a,b", "engine": "torch,tensorflow"})
    assert sweep.axes == {"engine": ("torch", "tensorflow"), "hosts": ("local", "netns:a,b")}
    assert experiment({"workload": "logreg", **parse_assignments(["hosts=netns:a,b"])}).run.hosts == "netns:a,b"
    assert [name for name, option in OPTIONS.items() if option.split is not tuple] == ["hosts"]


def test_value_of_a_list_in_a_file_or_in_python_is_never_divided() -> None:
    assert experiment({"workload": "logreg", "hosts": ["netns:a,local"]}).run.hosts == "netns:a,local"
