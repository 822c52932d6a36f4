"""Commands that start ranks are told from others."""

import pytest

from paceline.observe.process_hooks import starts_ranks

RANK = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_PORT": "29500"}


@pytest.mark.parametrize(
    ("command", "environment", "expected"),
    [
        (["torchrun", "--nproc-per-node=2", "train.py"], None, True),
        (["/usr/bin/python", "-m", "torch.distributed.run", "train.py"], None, True),
        (["/usr/bin/accelerate", "launch", "train.py"], None, True),
        ("torchrun train.py", None, True),
        (["python", "train.py"], RANK, True),
        (["python", "train.py"], {"PATH": "/bin"}, False),
        (["nvidia-smi", "-q"], None, False),
        (["python", "a", "b", "c", "d", "torchrun"], None, False),
        (b"gcc", None, False),
        ([b"gcc", 3], 7, False),
    ],
)
def test_commands_that_start_ranks(command: object, environment: object, expected: bool) -> None:
    assert starts_ranks(command, environment) is expected  # type: ignore[arg-type]


def test_a_command_with_the_rank_of_this_process_starts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in RANK.items():
        monkeypatch.setenv(name, value)
    assert not starts_ranks(["gcc"], RANK)
