"""Arguments of the form OPTION=VALUE,OPTION=VALUE."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import HostError
from paceline.hosts.arguments import read_options, split_at_commas

KNOWN = ("nodelist", "partition", "time")
_VALUE = st.text("ab1-:.", min_size=1, max_size=5)
_LIST = st.lists(_VALUE, min_size=1, max_size=3).map(",".join) | st.lists(_VALUE, min_size=1).map(
    lambda items: f"n[{','.join(items)}]"
)


@given(st.dictionaries(st.sampled_from(KNOWN), _LIST, min_size=1))
def test_options_are_read_as_they_were_written(options: dict[str, str]) -> None:
    text = ",".join(f"{name}={value}" for name, value in options.items())
    assert read_options("slurm", text, KNOWN) == options


@given(st.text("ab=,[]() ", max_size=30))
def test_any_text_gives_options_or_one_line(text: str) -> None:
    assert ",".join(split_at_commas(text)).replace(" ", "") == text.replace(" ", "")
    try:
        read_options("slurm", text, ("a", "b"))
    except HostError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("partion=cpu", "unknown option 'partion': did you mean partition?"),
        ("xyz=1", "choose from nodelist, partition, time"),
        ("partition=", "partition has no value"),
        ("time=1,time=2", "time is given twice"),
        ("cpu", "unknown option 'cpu'"),
        ("time=1,,partition=a", "unknown option ''"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    with pytest.raises(HostError, match=r"^--hosts slurm: ") as raised:
        read_options("slurm", text, KNOWN)
    assert said in str(raised.value)
