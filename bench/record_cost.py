"""What it costs to record one step, in microseconds.

A tight loop would mislead: after a step of the model, the recorder's code and data are no longer in the CPU caches, and
every instruction costs several times more. So this times the recording after each of many real torch steps (logistic
regression, batch 100). The variants take turns of a few steps each inside one process, in random order: whatever else
the machine does affects all of them alike.
"""

import random
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median, quantiles

from bench.measure import Measurement, print_table
from paceline.recording.recorder import Recorder, clock_ns

RecordStep = Callable[[int], None]
"""Records one step, all of whose times are the given one."""
_TURN_STEPS = 16
_TURNS_PER_ROUND = 100


def record(rounds: int) -> None:
    """Print the cost of recording a step of torch ps-async."""
    with tempfile.TemporaryDirectory(prefix="paceline-bench-") as folder:
        variants = {
            "recorded": ps_async_step(Recorder(Path(folder) / "recorded")),
            "empty function": lambda _: None,
        }
        costs = in_turns(variants, rounds * _TURNS_PER_ROUND)
    difference = median(costs["recorded"]) - median(costs["empty function"])
    measurements = {name: Measurement(tuple(times)) for name, times in costs.items()}
    middle = {name: quantiles(times, n=4) for name, times in costs.items()}
    note = "; ".join(f"{name}: half of the turns {low:.2f} to {high:.2f}" for name, (low, _, high) in middle.items())
    print_table(
        "Recording one step of torch ps-async", measurements, {"cost in µs per step": (difference, note)}, unit="µs"
    )


def ps_async_step(recorder: Recorder) -> RecordStep:
    """What the training loop and a worker of torch ps-async do at each step."""

    def record_step(now_ns: int) -> None:
        record = recorder.current
        record.start_ns = now_ns
        record.data_end_ns = now_ns
        record.compute_start_ns, record.compute_end_ns = now_ns, now_ns
        record.push_start_ns, record.push_end_ns = now_ns, now_ns
        record.pull_start_ns, record.pull_end_ns = now_ns, now_ns
        recorder.end_step(now_ns, 7, 0.5, 2)

    return record_step


def in_turns(variants: Mapping[str, RecordStep], turns: int) -> dict[str, list[float]]:
    """For each variant the median cost of a step in each of its turns, in µs, reading the clock included."""
    train, names = _torch_step(), list(variants)
    costs: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(turns):
        random.shuffle(names)
        for name in names:
            costs[name].append(median(_turn(train, variants[name])) / 1e3)
    return costs


def _turn(train: Callable[[], None], record_step: RecordStep) -> list[int]:
    """The time of each recording of a turn but the first, whose code has not been used for many steps."""
    times = []
    for _ in range(_TURN_STEPS):
        train()
        start_ns = clock_ns()
        record_step(start_ns)
        times.append(clock_ns() - start_ns)
    return times[1:]


def _torch_step() -> Callable[[], None]:
    import torch

    torch.set_num_threads(1)
    images, labels = torch.rand(100, 784), torch.randint(0, 10, (100,))
    weights, bias = torch.zeros(784, 10, requires_grad=True), torch.zeros(10, requires_grad=True)

    def train() -> None:
        loss = torch.nn.functional.cross_entropy(images @ weights + bias, labels)
        loss.backward()
        with torch.no_grad():
            torch._foreach_add_([weights, bias], [weights.grad, bias.grad], alpha=-0.1)
        weights.grad = bias.grad = None
        loss.item()

    return train
