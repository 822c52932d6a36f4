"""What the user is told of data sets before a run."""

from pathlib import Path

import pytest

from paceline.data import mnist, registry
from paceline.data.cache import FileSet, Pinned
from paceline.data.fetch import Source


@pytest.fixture
def said() -> list[str]:
    return []


def test_data_without_files_is_simply_there(said: list[str]) -> None:
    for name in ("imagenet", "sparse"):
        assert registry.ensure(name, said.append).synthetic
    assert said == []


def test_what_stands_in_for_something_else_is_told(
    data_dir: Path, small: FileSet, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = tuple(Pinned(f"digits-{file.name}", file.size, None) for file in small.files)
    monkeypatch.setattr(mnist, "DIGITS", FileSet("digits", few))
    monkeypatch.setattr(mnist, "_DIGITS_PARTS", ((40, 1), (20, 2)))
    monkeypatch.setenv("PACELINE_OFFLINE", "1")
    registry.ensure("mnist", said.append)
    registry.ensure("distorted-mnist", said.append)
    assert [line.split(" (")[0] for line in said] == [
        "getting mnist, which is not on this machine yet",
        "note: training on synthetic digits",
        "note: training on distorted synthetic digits",
    ]
    works, what = registry.presence()["mnist"]
    assert not works
    assert what.endswith(f"in {data_dir}")


def test_doctor_is_told_of_every_data_set(data_dir: Path, good: Source) -> None:
    mnist.ensure([good])
    found = registry.presence()
    assert set(found) == {"mnist", "fashion-mnist", "distorted-mnist", "cifar10", "imagenet", "sparse"}
    assert found["mnist"] == (True, f"mnist in {data_dir}")
    assert found["distorted-mnist"][1].startswith("distorted mnist")
    assert found["cifar10"] == (True, "not here yet: fetched when a run first needs it")
    assert found["sparse"] == (True, "synthetic clicks of Criteo's shape")
