"""What observing a script costs per step, in microseconds, in one process and less than a minute.

Real steps of about 5 ms are made by turns with the hooks of `paceline launch` and with torch as it was before. After a
step of the model the code of the hooks is no longer in the CPU caches, so a tight loop over the hooks, and even a model
that fits into the caches, would show a fraction of their cost.
"""

import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any, cast

from bench.measure import Measurement, print_table
from paceline.observe.observer import Observer
from paceline.recording.recorder import Recorder
from paceline.train.context import TaskContext

_TURN_STEPS = 16
_DROPPED_STEPS = 4
"""First steps of a turn, which are not counted: Python specializes code anew after the switch."""
_TURNS_PER_ROUND = 25
_WIDTH = 1000
_STACK_HZ = 20.0


def hooks(rounds: int) -> None:
    """The cost of a step of DistributedDataParallel alone and with an exchange, and of the stack sampler."""
    measurements: dict[str, Measurement] = {}
    ratios: dict[str, tuple[float, str]] = {}
    with tempfile.TemporaryDirectory(prefix="paceline-bench-") as folder:
        observer = _observer(Path(folder))
        for name, ranks in (("one rank", 1), ("two ranks", 2)):
            train = _ddp_step(ranks)
            costs = in_turns(train, _switch(observer), observer.clock.flush, rounds * _TURNS_PER_ROUND)
            for state, values in costs.items():
                measurements[f"{name}, {state}"] = Measurement(tuple(values))
            difference = [on - off for on, off in zip(costs["observed"], costs["unobserved"], strict=True)]
            ratios[f"{name}: µs per step"] = (median(difference), "at 5 ms per step, 50 µs are 1 %")
        ratios["stack sampler: µs per sample"] = (_sampler_cost(observer, train), f"{_STACK_HZ:g} samples per second")
    print_table("A step with and without the hooks of `paceline launch`", measurements, ratios, unit="µs")


def _switch(observer: Observer) -> Callable[[bool], None]:
    """Takes the hooks out of torch, and puts them back."""
    from bench.peers.hook_switch import HookSwitch  # Imports torch, which the other benchmarks must not do.

    switch = HookSwitch(observer.clock)
    return lambda on: switch.set(on=on)


def in_turns(
    train: Callable[[], None], switch: Callable[[bool], None], flush: Callable[[], None], turns: int
) -> dict[str, list[float]]:
    """The time of a step in each turn with and without hooks, in µs: the median, and a share of what hooks put off."""
    costs: dict[str, list[float]] = {"observed": [], "unobserved": []}
    for _ in range(turns):
        for state in random.sample(list(costs), 2):
            switch(state == "observed")
            costs[state].append(_turn(train, flush) / 1e3)
    switch(True)
    return costs


def _turn(train: Callable[[], None], flush: Callable[[], None]) -> float:
    """CPU time of a step: unlike the time that has passed, it contains no other processes.

    Hooks put off the accounting for about as many steps as are counted here.
    """
    times = []
    for step in range(_TURN_STEPS):
        if step == _DROPPED_STEPS:
            flush()
        times.append(_cpu_ns(train))
    counted = times[_DROPPED_STEPS:]
    return median(counted) + _cpu_ns(flush) / len(counted)


def _cpu_ns(work: Callable[[], None]) -> int:
    start_ns = time.thread_time_ns()
    work()
    return time.thread_time_ns() - start_ns


def _observer(folder: Path) -> Observer:
    """An observer as in the task of a rank, but of this process."""
    script = SimpleNamespace(stack_hz=0.0)
    job = SimpleNamespace(stop=(), script=script, is_chief=True, workers=1)
    rendezvous = SimpleNamespace(halted=threading.Event(), last_step=None, report_ready=lambda: None)
    context = SimpleNamespace(job=job, rendezvous=rendezvous, recorder=Recorder(folder / "records"))
    observer = Observer(cast(TaskContext, context))
    observer.install()
    return observer


def _sampler_cost(observer: Observer, train: Callable[[], None]) -> float:
    """The CPU time of one sample, taken by a thread while this one trains."""
    times: list[float] = []

    def sample() -> None:
        for _ in range(40):
            time.sleep(1 / _STACK_HZ / 2)
            start = time.thread_time_ns()
            observer.sampler.sample()
            times.append((time.thread_time_ns() - start) / 1e3)

    thread = threading.Thread(target=sample)
    thread.start()
    while thread.is_alive():
        train()
    return median(times)


def _ddp_step(ranks: int) -> Callable[[], None]:
    """A step of about 5 ms. With two ranks the other one is simulated: its exchange takes no time."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.testing._internal.distributed.fake_pg import FakeStore
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
    torch.manual_seed(1)
    layers = nn.Linear(64, _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, 10)
    network = nn.Sequential(*layers)
    model = nn.parallel.DistributedDataParallel(network)
    model.register_comm_hook(None, _exchange_nothing)
    optimizer, loss_function = torch.optim.SGD(model.parameters(), lr=0.01), nn.CrossEntropyLoss()
    loader = DataLoader(TensorDataset(torch.randn(4096, 64), torch.randint(0, 10, (4096,))), batch_size=64)

    def batches() -> Any:
        while True:
            yield from loader

    following = batches()

    def train() -> None:
        inputs, labels = next(following)
        loss = loss_function(model(inputs), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return train


def _exchange_nothing(_state, bucket):  # type: ignore[no-untyped-def]  # torch checks annotations.
    import torch

    future: Any = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


if __name__ == "__main__":
    hooks(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
