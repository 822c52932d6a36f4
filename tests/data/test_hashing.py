"""Numbers from counters: SplitMix64's own, whoever asks for them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from paceline.data.hashing import bits, halves, key, quarters

words = st.integers(0, 2**64 - 1)


def test_they_are_those_of_splitmix64() -> None:
    assert bits(0, np.arange(1, 4)).tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert key(0) == 0xE220A8397B1DCDAF


@given(words, st.lists(st.integers(0, 2**62), min_size=1, max_size=20))
def test_a_number_depends_on_its_counter_alone(of: int, counters: list[int]) -> None:
    together = bits(of, np.array(counters))
    assert together.tolist() == [int(bits(of, np.array([one]))[0]) for one in counters]


@given(st.lists(words, min_size=1, max_size=3), st.lists(words, min_size=1, max_size=3))
def test_other_parts_make_another_key(first: list[int], second: list[int]) -> None:
    assert (key(*first) == key(*second)) == (first == second)


def test_parts_of_words_are_even() -> None:
    drawn = bits(key(7), np.arange(40_000))
    for parts in (halves(drawn) / 2**32, quarters(drawn) / 2**16):
        assert abs(parts.mean() - 0.5) < 0.005
        assert abs(parts.std() - 12**-0.5) < 0.005
    assert halves(drawn[:1]).tolist() == [int(drawn[0]) % 2**32, int(drawn[0]) >> 32]
