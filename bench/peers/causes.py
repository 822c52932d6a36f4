"""A DistributedDataParallel script with a bottleneck that is made on purpose, for comparisons of tools that find it.

Under TraceML it needs two lines of TraceML's; for Paceline nothing is changed. `--turns FILE` switches the observation
by the tool off and on every 40 steps and writes the durations of both kinds of steps.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset, default_collate
from torch.utils.data.distributed import DistributedSampler

CAUSES = ("healthy", "collate", "forward", "backward", "rotating", "memory", "link")
SLOW_RANK = 1
SLOW_S = 0.01
STEPS_PER_TURN = 40
DROPPED_STEPS = 5
"""First steps of a turn, which are not counted."""


class SlowForward(nn.Module):  # type: ignore[misc]
    def __init__(self, slow_s: Callable[[], float]) -> None:
        super().__init__()
        self.slow_s = slow_s

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        time.sleep(self.slow_s())
        return values


class SlowBackward(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(context: Any, values: torch.Tensor, slow_s: float) -> torch.Tensor:
        context.slow_s = slow_s
        return values.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        time.sleep(context.slow_s)
        return gradient, None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cause", choices=CAUSES, default="healthy")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--turns", default="", help="where to write the durations of steps")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    train(args, dist.get_rank())
    dist.destroy_process_group()


def train(args: argparse.Namespace, rank: int) -> None:
    slow = rank == SLOW_RANK
    step = 0

    def collate(items: list[Any]) -> Any:
        if slow and args.cause == "collate":
            time.sleep(SLOW_S)
        return default_collate(items)

    def forward_s() -> float:
        if args.cause == "rotating":
            return SLOW_S if (step // 150) % dist.get_world_size() == rank else 0.0
        return SLOW_S if slow and args.cause == "forward" else 0.0

    data = TensorDataset(torch.randn(4096, 64), torch.randint(0, 10, (4096,)))
    sampler = DistributedSampler(data, seed=1)
    loader = DataLoader(data, batch_size=64, sampler=sampler, collate_fn=collate)
    width = args.width
    first, last = nn.Linear(64, width), nn.Linear(width, 10)
    network = nn.Sequential(first, nn.ReLU(), SlowForward(forward_s), nn.Linear(width, width), nn.ReLU(), last)
    model = DistributedDataParallel(network)
    optimizer, loss_function = torch.optim.SGD(model.parameters(), lr=0.01), nn.CrossEntropyLoss()
    kept: list[torch.Tensor] = []
    traced = _traceml_step(model)
    turns = Turns(args.turns, _tool_switch() if args.turns else _no_switch)
    while step < args.steps:
        for inputs, labels in loader:
            with traced() if turns.on else nullcontext():
                outputs = model(inputs)
                if args.cause == "backward" and slow:
                    outputs = SlowBackward.apply(outputs, SLOW_S)
                loss = loss_function(outputs, labels)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            if args.cause == "memory" and slow:
                kept.append(torch.ones(25_000))
            turns.add()
            step += 1
            if step == args.steps:
                break
    turns.write(rank)


def _traceml_step(model: nn.Module) -> Callable[[], AbstractContextManager[Any]]:
    """What TraceML needs around a step of a plain loop; nothing without TraceML."""
    if os.environ.get("BENCH_TOOL") != "traceml":
        return nullcontext
    traceml_ai = import_module("traceml_ai")

    traceml_ai.init(mode="auto")
    return lambda: traceml_ai.trace_step(model)


def _no_switch(_on: bool) -> None:
    pass


def _tool_switch() -> Callable[[bool], None]:
    """A function that switches the hooks of Paceline; TraceML is switched by leaving out its step."""
    if os.environ.get("BENCH_TOOL") == "traceml":
        return _no_switch
    from paceline.observe import api

    switch = import_module("hook_switch").HookSwitch(api._clock)
    return lambda on: switch.set(on=on)


class Turns:
    """Steps with and without observation in turns."""

    def __init__(self, file: str, switch: Callable[[bool], None]) -> None:
        self._file, self._switch, self._count, self._last_ns = file, switch, 0, 0
        self._durations_ns: dict[bool, list[int]] = {True: [], False: []}
        self.on = True

    def add(self) -> None:
        if not self._file:
            return
        now_ns = time.perf_counter_ns()
        place = self._count % STEPS_PER_TURN
        if self._last_ns and place > DROPPED_STEPS:
            self._durations_ns[self.on].append(now_ns - self._last_ns)
        self._last_ns, self._count = now_ns, self._count + 1
        if self._count % STEPS_PER_TURN == 0:
            self._set(not self.on)

    def _set(self, on: bool) -> None:
        self.on = on
        self._switch(on)

    def write(self, rank: int) -> None:
        self._set(True)
        if self._file and rank == 0:
            per_turn = STEPS_PER_TURN - DROPPED_STEPS - 1
            turns = {
                name: [values[at : at + per_turn] for at in range(0, len(values), per_turn)]
                for name, values in (("on", self._durations_ns[True]), ("off", self._durations_ns[False]))
            }
            Path(self._file).write_text(json.dumps(turns))


if __name__ == "__main__":
    main()
