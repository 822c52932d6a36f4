import pytest

from paceline.errors import PlanError, SpecError
from paceline.plan.layout import Layout
from paceline.plan.limits import HostLimits, limits
from paceline.spec.experiment import RunSpec
from paceline.spec.load import experiment
from paceline.spec.sweep import expand

THREE = Layout(("pw", "w", "w"))


def spec(**fields: object) -> RunSpec:
    (one,) = expand(experiment({"workload": "logreg", **fields}))
    return one


def test_one_value_is_for_every_host() -> None:
    found = limits(spec(link="100mbit", cpus=0.5), THREE)
    assert found == tuple(HostLimits(host=host, link_bits_s=10**8, cpus=0.5) for host in ("h1", "h2", "h3"))


def test_words_are_for_one_host_each() -> None:
    found = limits(spec(link="- 1gbit 10mbit", cpus="0.1 1 -"), THREE)
    assert [most.link_bits_s for most in found] == [None, 10**9, 10**7]
    assert [most.cpus for most in found] == [0.1, 1, None]


def test_nothing_asked_is_no_limit() -> None:
    assert limits(spec(), THREE) == tuple(HostLimits(host=host) for host in ("h1", "h2", "h3"))


def test_words_must_be_as_many_as_hosts() -> None:
    with pytest.raises(PlanError, match="is for 2 hosts, layout 'pw w w' has 3"):
        limits(spec(cpus="0.1 1"), THREE)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [({"cpus": "0.1 many"}, "cpus 'many'"), ({"cpus": "0"}, "cpus 0"), ({"link": "1gbit fast"}, "'fast'"),
     ({"cpus": [" "]}, "cpus is empty")],
)  # fmt: skip
def test_words_that_say_nothing_are_refused(fields: dict[str, object], complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        spec(**fields)
