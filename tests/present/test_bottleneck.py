import msgspec

from paceline.present.bottleneck import (
    account_text,
    bottleneck_summary,
    repeats_summary,
    second_cause,
    short_bottleneck,
)
from paceline.store.verdict import AccountedTime, Verdict

NETWORK = Verdict(
    cause="network", where="h1, outbound link", share=0.76, evidence=[], remedy=[], confidence="high",
    runner_up=AccountedTime(cause="contention", where="the machine's 2 cores", share=0.2),
)  # fmt: skip


def test_a_summary_names_cause_place_and_share() -> None:
    assert bottleneck_summary(NETWORK) == "network: h1, outbound link (76 % of the workers' time, high confidence)"
    assert second_cause(NETWORK) == "CPU contention: the machine's 2 cores, 20 %"


def test_an_unclear_bottleneck_has_no_place() -> None:
    unclear = Verdict(cause="not clear", where="", share=0.3, evidence=[], remedy=[], runner_up=NETWORK.runner_up)
    assert (bottleneck_summary(unclear), second_cause(unclear)) == ("not clear", "")


def with_shares(*shares: float) -> Verdict:
    parts = [AccountedTime(cause=f"c{number}", where="", share=share) for number, share in enumerate(shares)]
    return Verdict(cause="c0", where="w0", share=shares[0], evidence=[], remedy=[], account=parts)


def test_the_percentages_of_the_account_add_up_to_100() -> None:
    assert account_text(with_shares(0.625, 0.371, 0.003, 0.001)) == "c0 62 %, c1 37 %, rest 1 %"
    assert account_text(with_shares(0.676, 0.166, 0.158)) == "c0 68 %, c1 17 %, c2 15 %"
    assert account_text(with_shares(1.0)) == "c0 100 %"
    assert account_text(NETWORK) == ""


def test_repeats_that_agree_are_summarized_and_others_are_counted() -> None:
    other = msgspec.structs.replace(NETWORK, share=0.7, confidence="low")
    compute = Verdict(cause="compute", where="w0 on h1", share=0.5, evidence=[], remedy=[])
    assert repeats_summary([NETWORK, other]) == (
        "network: h1, outbound link (70–76 % of the workers' time, low confidence, in all 2 repeats)"
    )
    assert short_bottleneck([NETWORK, other]) == "network: h1 70–76 %"
    assert short_bottleneck([compute]) == "compute: w0 50 %"
    disagreement = "network in 2 of 3, compute in 1 of 3"
    assert repeats_summary([NETWORK, compute, other]) == f"repeats disagree: {disagreement}"
    assert short_bottleneck([NETWORK, compute, other]) == disagreement
