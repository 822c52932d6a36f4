from paceline.agent.lease import MOST_BETWEEN_LOOKS_S, Lease


def test_silence_adds_up_until_something_is_heard() -> None:
    lease = Lease()
    assert [lease.silent_s(float(now)) for now in range(5)] == [0, 1, 2, 3, 4]
    lease.renew()
    assert lease.silent_s(4.5) == 0.5


def test_who_was_away_himself_does_not_blame_the_other() -> None:
    lease = Lease()
    lease.silent_s(100.0)
    assert lease.silent_s(700.0) == MOST_BETWEEN_LOOKS_S
