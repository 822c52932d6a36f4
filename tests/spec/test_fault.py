from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import SpecError
from paceline.spec.experiment import AXES
from paceline.spec.fault import Fault, FaultKind, parse_faults
from paceline.spec.load import experiment
from paceline.spec.sweep import expand, key


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("kill w1 at step 500", Fault(kind="kill", target="w1", at_step=500)),
        ("kill ps0 at 10s", Fault(kind="kill", target="ps0", at_s=10)),
        ("freeze w2 for 5s at 10s", Fault(kind="freeze", target="w2", for_s=5, at_s=10)),
        ("freeze h2 for 5s at step 100", Fault(kind="freeze", target="h2", for_s=5, at_step=100)),
        ("cut h2 for 0.5s at 0s", Fault(kind="cut", target="h2", for_s=0.5, at_s=0)),
        ("slow h3 to 0.2 cpus at 10s", Fault(kind="slow", target="h3", cpus=0.2, at_s=10)),
        ("slow h3 to 0.2 cpus for 5s at 10s", Fault(kind="slow", target="h3", cpus=0.2, for_s=5, at_s=10)),
        ("limit h2 to 10mbit at 20s", Fault(kind="limit", target="h2", link_bits_s=10**7, at_s=20)),
        ("limit h2 to 1500kbit for 5s at 20s", Fault(kind="limit", target="h2", link_bits_s=1500000, for_s=5, at_s=20)),
    ],
)  # fmt: skip
def test_fault_is_parsed_from_and_written_as_the_same_text(text: str, fault: Fault) -> None:
    assert Fault.parse(text) == fault
    assert str(fault) == text


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("Cut H2 at 10s for 5s", "cut h2 for 5s at 10s"),
        ("freeze w1 at 1500 ms for 2 s", "freeze w1 for 2s at 1.5s"),
        ("slow h1 to 0.5 at 1s", "slow h1 to 0.5 cpus at 1s"),
        ("slow h1 to 1 cpu at 1s", "slow h1 to 1 cpus at 1s"),
        ("limit h1 to 1000 kbit at 1s", "limit h1 to 1mbit at 1s"),
    ],
)
def test_clause_order_case_and_units_may_vary(text: str, normalized: str) -> None:
    assert str(Fault.parse(text)) == normalized


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "write e.g. kill w1 at step 500"),
        ("kil w1 at step 500", "unknown fault 'kil': did you mean kill?"),
        ("explode w1 at 5s", "choose from cut, freeze, kill, limit, slow"),
        ("kill", "neither a task"),
        ("kill worker1 at 5s", "'worker1' is neither a task .* nor a host"),
        ("kill h1 at 5s", "kill takes a task .*, but h1 is a host"),
        ("cut w1 for 5s at 5s", "cut takes a host .*, but w1 is a task"),
        ("kill w1", "the start is missing: .*; write e.g. kill w1 at step 500"),
        ("kill w1 on step 500", "unknown clause 'on'"),
        ("kill w1 sometime 5s", "choose from at, for, to"),
        ("kill w1 at step", "whole number above 0"),
        ("kill w1 at step 0", "whole number above 0"),
        ("kill w1 at step 1.5", "whole number above 0"),
        ("kill w1 at noon", "duration 'noon'"),
        ("kill w1 at 5s at 6s", "'at' is given twice"),
        ("kill w1 for 5s at 6s", "kill takes no duration: remove 'for 5s'"),
        ("kill w1 to 5s at 6s", "kill takes no limit: remove 'to 5s'"),
        ("freeze w1 at 5s", "the duration is missing: .*; write e.g. freeze w1 for 5s at 10s"),
        ("freeze w1 for 0s at 5s", "from 0.001s"),
        ("freeze w1 for 9999999s at 5s", "to 1000000s"),
        ("cut h1 at 5s", "the duration is missing"),
        ("slow h1 at 5s", "the limit is missing: add e.g. 'to 0.2 cpus'; write e.g. slow h3 to 0.2 cpus"),
        ("slow h1 to 0 cpus at 5s", "cpus 0 is out of range: must be from 0.01"),
        ("slow h1 to nan cpus at 5s", "must be from"),
        ("limit h1 to 10mb at 5s", "100mbit"),
        ("limit h1 to 1bit at 5s", "10kbit"),
    ],
)
def test_invalid_fault_is_refused_with_an_example(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message) as refusal:
        Fault.parse(text)
    assert "\n" not in str(refusal.value)


_WORDS = [
    "kill",
    "freeze",
    "cut",
    "slow",
    "limit",
    "w1",
    "h2",
    "to",
    "for",
    "at",
    "step",
    "5s",
    "10mbit",
    "0.2",
    "cpus",
]


@given(st.text(max_size=60) | st.lists(st.sampled_from(_WORDS) | st.text(max_size=8), max_size=9).map(" ".join))
def test_any_text_gives_a_fault_or_a_one_line_spec_error(text: str) -> None:
    try:
        fault = Fault.parse(text)
    except SpecError as error:
        assert "\n" not in str(error)
        return
    assert Fault.parse(str(fault)) == fault


_SECONDS = st.integers(1_000, 10**12).map(lambda micros: micros / 10**6)
_REQUIRED_FIELDS: dict[FaultKind, dict[str, st.SearchStrategy[Any]]] = {
    "kill": {},
    "freeze": {"for_s": _SECONDS},
    "cut": {"for_s": _SECONDS},
    "slow": {"cpus": st.integers(10_000, 10**8).map(lambda millionths: millionths / 10**6)},
    "limit": {"link_bits_s": st.integers(10**4, 10**11)},
}


@st.composite
def faults(draw: st.DrawFn) -> Fault:
    kind = draw(st.sampled_from(list(_REQUIRED_FIELDS)))
    names = {"kill": ["w", "ps"], "freeze": ["w", "ps", "h"]}.get(kind, ["h"])
    fields = {name: draw(values) for name, values in _REQUIRED_FIELDS[kind].items()}
    fields |= draw(
        st.fixed_dictionaries({"at_step": st.integers(1, 10**11)}) | st.fixed_dictionaries({"at_s": _SECONDS})
    )
    if kind in ("slow", "limit"):
        fields |= draw(st.fixed_dictionaries({}, optional={"for_s": _SECONDS}))
    return Fault(kind=kind, target=f"{draw(st.sampled_from(names))}{draw(st.integers(0, 255))}", **fields)


@given(faults())
def test_fault_written_as_text_parses_as_equal(fault: Fault) -> None:
    assert Fault.parse(str(fault)) == fault


def test_all_faults_belong_to_each_run_and_change_its_key() -> None:
    texts = ["kill w1 at step 500", "freeze w0 for 1s at 2s"]
    fields = {"workload": "logreg", "batch": [10, 20]}
    with_faults, without_faults = expand(experiment({**fields, "fault": texts})), expand(experiment(fields))
    assert [run.fault for run in with_faults] == [parse_faults(texts)] * 2
    assert {key(run) for run in with_faults}.isdisjoint(key(run) for run in without_faults)
    assert "fault" not in AXES
    assert experiment({**fields, "fault": texts[0]}) == experiment({**fields, "fault": parse_faults(texts[:1])})


def test_fault_made_in_python_is_checked_too() -> None:
    with pytest.raises(SpecError, match="the duration is missing"):
        experiment({"workload": "logreg", "fault": [Fault(kind="freeze", target="w0", at_s=1.0)]})
