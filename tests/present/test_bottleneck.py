from paceline.present.bottleneck import bottleneck_summary, second_cause
from paceline.store.result import Suspect, Verdict

NETWORK = Verdict(
    cause="network", where="h1, outbound link", share=0.76, evidence=[], remedy=[], confidence="high",
    runner_up=Suspect(cause="contention", where="the machine's 2 cores", share=0.2),
)  # fmt: skip


def test_a_summary_names_cause_place_and_share() -> None:
    assert bottleneck_summary(NETWORK) == "network: h1, outbound link (76 % of the workers' time, high confidence)"
    assert second_cause(NETWORK) == "CPU contention: the machine's 2 cores, 20 %"


def test_an_unclear_bottleneck_has_no_place() -> None:
    unclear = Verdict(cause="not clear", where="", share=0.3, evidence=[], remedy=[], runner_up=NETWORK.runner_up)
    assert (bottleneck_summary(unclear), second_cause(unclear)) == ("not clear", "")
