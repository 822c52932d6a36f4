"""The lease: how long the other side was silent, not counting pauses of this process."""

from paceline.messages.lease import MAX_TICK_S, Lease


def test_silence_grows_until_a_message_renews_the_lease() -> None:
    lease = Lease()
    assert [lease.silent_s(float(now)) for now in range(5)] == [0, 1, 2, 3, 4]
    lease.renew()
    assert lease.silent_s(4.5) == 0.5


def test_a_pause_of_this_process_counts_as_one_tick_of_silence() -> None:
    lease = Lease()
    lease.silent_s(100.0)
    assert lease.silent_s(700.0) == MAX_TICK_S
