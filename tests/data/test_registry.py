"""What users are told about data sets before a run."""

from pathlib import Path

import pytest

from paceline.data import mnist, registry
from paceline.data.cache import FileSet, PinnedFile
from paceline.data.fetch import Source


@pytest.fixture
def lines() -> list[str]:
    return []


def test_data_without_files_needs_no_message(lines: list[str]) -> None:
    for name in ("imagenet", "sparse"):
        assert registry.ensure(name, lines.append).synthetic
    assert lines == []


def test_the_user_is_told_about_a_substitute(
    data_dir: Path, small_mnist: FileSet, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = tuple(PinnedFile(f"digits-{file.name}", file.size, None) for file in small_mnist.files)
    monkeypatch.setattr(mnist, "DIGITS", FileSet("digits", few))
    monkeypatch.setattr(mnist, "_DIGITS_PARTS", ((40, 1), (20, 2)))
    monkeypatch.setenv("PACELINE_OFFLINE", "1")
    registry.ensure("mnist", lines.append)
    registry.ensure("distorted-mnist", lines.append)
    assert [line.split(" (")[0] for line in lines] == [
        "fetching mnist, which is not on this machine yet",
        "note: training on synthetic digits",
        "note: training on distorted synthetic digits",
    ]
    is_real, text = registry.presence()["mnist"]
    assert not is_real
    assert text.endswith(f"in {data_dir}")


def test_presence_describes_every_data_set(data_dir: Path, complete_source: Source) -> None:
    mnist.ensure([complete_source])
    states = registry.presence()
    assert set(states) == {
        "mnist",
        "fashion-mnist",
        "distorted-mnist",
        "cifar10",
        "imagenet",
        "sparse",
        "text",
        "text-256",
    }
    assert states["mnist"] == (True, f"mnist in {data_dir}")
    assert states["distorted-mnist"][1].startswith("distorted mnist")
    assert states["cifar10"] == (True, "not on this machine yet: fetched when a run first needs it")
    assert states["sparse"] == (True, "synthetic clicks of Criteo's shape")
