"""Takes the hooks of `paceline launch` out of torch and puts them back, within one process."""

import sys
from typing import Any

import torch
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

_DISTRIBUTED = sys.modules["torch.distributed.distributed_c10d"]
_PLACES: tuple[tuple[Any, str], ...] = (
    (torch.nn.Module, "__call__"), (torch.autograd, "backward"), (DataLoader, "__iter__"),
    (_BaseDataLoaderIter, "__next__"), (torch._C._distributed_c10d.Work, "wait"),
    (torch.distributed, "_broadcast_coalesced"), (torch.distributed, "all_reduce"), (_DISTRIBUTED, "all_reduce"),
)  # fmt: skip
"""The entry points of torch that a step of DistributedDataParallel uses."""


class HookSwitch:
    """Made after the hooks were installed."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        optimizers = sys.modules["torch.optim.optimizer"]
        self._optimizer_hooks = (optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks)
        self._installed = [dict(hooks) for hooks in self._optimizer_hooks]
        self._hooked = [owner.__dict__[name] for owner, name in _PLACES]
        self._originals = [getattr(value, "__wrapped__", value) for value in self._hooked]

    def set(self, *, on: bool) -> None:
        """Switch the hooks on or off."""
        for (owner, name), value in zip(_PLACES, self._hooked if on else self._originals, strict=True):
            setattr(owner, name, value)
        for hooks, installed in zip(self._optimizer_hooks, self._installed, strict=True):
            hooks.clear()
            if on:
                hooks.update(installed)
        self._clock.enabled = on
