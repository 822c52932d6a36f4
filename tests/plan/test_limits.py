import pytest

from paceline.errors import PlanError, SpecError
from paceline.plan.layout import Layout
from paceline.plan.limits import HostLimits, limits
from paceline.spec.load import experiment
from paceline.spec.run_options import RunSpec
from paceline.spec.sweep import expand

THREE_HOSTS = Layout(("pw", "w", "w"))


def spec(**fields: object) -> RunSpec:
    (run,) = expand(experiment({"workload": "logreg", **fields}))
    return run


def test_one_value_applies_to_every_host() -> None:
    host_limits = limits(spec(link="100mbit", cpus=0.5), THREE_HOSTS)
    assert host_limits == tuple(HostLimits(host=host, link_bits_s=10**8, cpus=0.5) for host in ("h1", "h2", "h3"))


def test_several_values_apply_to_one_host_each() -> None:
    host_limits = limits(spec(link="- 1gbit 10mbit", cpus="0.1 1 -"), THREE_HOSTS)
    assert [limit.link_bits_s for limit in host_limits] == [None, 10**9, 10**7]
    assert [limit.cpus for limit in host_limits] == [0.1, 1, None]


def test_without_options_hosts_have_no_limits() -> None:
    assert limits(spec(), THREE_HOSTS) == tuple(HostLimits(host=host) for host in ("h1", "h2", "h3"))


def test_number_of_values_must_match_the_hosts() -> None:
    with pytest.raises(PlanError, match="has 2 values, but layout 'pw w w' has 3 hosts"):
        limits(spec(cpus="0.1 1"), THREE_HOSTS)


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"cpus": "0.1 many"}, "cpus 'many'"), ({"cpus": "0"}, "cpus 0"), ({"link": "1gbit fast"}, "'fast'"),
     ({"cpus": [" "]}, "cpus is empty")],
)  # fmt: skip
def test_invalid_limit_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        spec(**fields)
