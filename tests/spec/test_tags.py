"""Tags: words by which users find runs again."""

import pytest

from paceline.errors import SpecError
from paceline.spec.load import experiment
from paceline.spec.sweep import expand, key
from paceline.spec.tags import read_tags


def test_tags_are_given_as_text_or_as_a_list() -> None:
    assert read_tags("one") == ("one",)
    assert read_tags(["one", "two,three", "one"]) == ("one", "two", "three")


@pytest.mark.parametrize("bad", ["", "a b", "-x", "<b>", "x" * 41, "a,,b"])
def test_other_characters_are_refused(bad: str) -> None:
    with pytest.raises(SpecError, match=r"tag '.*': must be 1 to 40 characters"):
        read_tags([bad])


def test_a_run_has_at_most_twenty() -> None:
    with pytest.raises(SpecError, match="21 tags are too many"):
        read_tags([f"t{number}" for number in range(21)])


def test_tags_make_no_sweep_and_no_other_run() -> None:
    (plain,) = expand(experiment({"workload": "logreg"}))
    (tagged,) = expand(experiment({"workload": "logreg", "tag": ["one", "two"]}))
    assert tagged.tag == ("one", "two")
    assert key(tagged) == key(plain)
