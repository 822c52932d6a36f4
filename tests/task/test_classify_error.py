"""Which errors of a task another attempt would meet again."""

import errno

import pytest
import tensorflow as tf
import torch
import zmq

from paceline.engines.registry import engines
from paceline.errors import DataError, PeersGone, RunError
from paceline.task.classify_error import is_permanent

TORCH, TENSORFLOW = (engines()[name].may_pass for name in ("torch", "tensorflow"))


class Unreadable(Exception):
    @property
    def errno(self) -> int:
        return 1 // 0


@pytest.mark.parametrize(
    ("error", "may_pass"),
    [
        (ValueError("wrong shape"), None),
        (OSError(errno.ENOENT, "no such file"), None),
        (RunError("train returned a batch of 5 examples"), TORCH),
        (DataError("line 5"), TORCH),
        (SystemExit(0), TORCH),
        (Unreadable(), TORCH),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied (10x3 and 4x1)"), TORCH),
        (tf.errors.InvalidArgumentError(None, None, "Incompatible shapes"), TENSORFLOW),
        (ValueError("wrong shape"), "no.such.module:function"),
    ],
)
def test_an_error_of_user_code_is_permanent(error: BaseException, may_pass: str | None) -> None:
    assert is_permanent(error, may_pass)


@pytest.mark.parametrize(
    ("error", "may_pass"),
    [
        (PeersGone("ps0 is gone"), None),
        (MemoryError(), None),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), None),
        (ConnectionResetError(), None),
        (TimeoutError(), None),
        (zmq.Again(), None),
        (RuntimeError("[gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:4711"), TORCH),
        (torch.distributed.DistBackendError("Gloo connectFullMesh failed"), TORCH),
        (tf.errors.UnavailableError(None, None, "Socket closed"), TENSORFLOW),
    ],
)
def test_a_lost_peer_and_lack_of_memory_may_pass(error: BaseException, may_pass: str | None) -> None:
    assert not is_permanent(error, may_pass)
