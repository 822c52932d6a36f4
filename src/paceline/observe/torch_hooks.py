"""Observes torch without changing it or importing it: its modules are passed in once the script has imported them.

Each function replaces one entry point by a wrapper that tells the clock about it. A wrapper does nothing but call the
original if another thread calls it, or inside of a phase that it would be a part of.
"""

import sys
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

from paceline.observe.batch_size import batch_size
from paceline.observe.checkpoint_wrapper import checkpoint_wrapper
from paceline.observe.step_clock import EXCHANGE, OPTIMIZER, OTHER, StepClock
from paceline.recording.recorder import clock_ns

Note = Callable[[str], None]
"""Called with a line about something that cannot be observed."""
_COLLECTIVES = (
    "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_reduce_coalesced", "all_to_all",
    "all_to_all_single", "barrier", "broadcast", "broadcast_object_list", "gather", "gather_object",
    "monitored_barrier", "recv", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter",
    "scatter_object_list", "send",
)  # fmt: skip


def observe_torch(torch: ModuleType, clock: StepClock, note: Note) -> None:
    """Observe everything of torch. What this version of torch does not have is noted, and the rest is observed."""
    for observe in (
        _observe_optimizers, _observe_modules, _observe_backward, _observe_data_loaders, _observe_collectives,
        _observe_scaler, _observe_saves, _observe_spawn,
    ):  # fmt: skip
        try:
            observe(torch, clock)
        except Exception as error:
            what = observe.__name__.removeprefix("_observe_").replace("_", " ")
            note(f"{what} of torch {torch.__version__} cannot be observed: {type(error).__name__}: {error}")


def observe_safetensors(module: ModuleType, clock: StepClock, note: Note) -> None:
    """Count the writing of safetensors files as checkpoints."""
    for name in ("save_file", "save_model"):
        setattr(module, name, checkpoint_wrapper(getattr(module, name), clock))


def _observe_optimizers(torch: ModuleType, clock: StepClock) -> None:
    open_step: list[tuple[object, int]] = []
    """The outermost optimizer whose step is under way, and the phase before it."""

    def before_step(optimizer: object, *_: object) -> None:
        if not clock.observes:
            return
        if open_step and open_step[0][0] is optimizer:
            # Its last step ended with an exception that the script has caught.
            open_step.clear()
            clock.phase = OTHER
        if not open_step:
            open_step.append((optimizer, clock.enter_optimizer()))

    def after_step(optimizer: object, *_: object) -> None:
        if not clock.observes or not open_step or open_step[0][0] is not optimizer:
            return
        clock.leave(open_step.pop()[1])
        if not clock.manual:
            clock.end_step()

    hooks = sys.modules["torch.optim.optimizer"]  # The attribute of torch.optim is deleted.
    hooks.register_optimizer_step_pre_hook(before_step)
    hooks.register_optimizer_step_post_hook(after_step)


def _observe_modules(torch: ModuleType, clock: StepClock) -> None:
    call, gradients = torch.nn.Module.__call__, torch.is_grad_enabled

    def __call__(self: object, *args: Any, **kwargs: Any) -> Any:
        if clock.phase > OPTIMIZER or not clock.observes:
            return call(self, *args, **kwargs)
        examples = batch_size(args or tuple(kwargs.values()))
        before = clock.enter_forward(examples, with_gradients=gradients())
        try:
            return call(self, *args, **kwargs)
        finally:
            clock.leave(before)

    torch.nn.Module.__call__ = __call__


def _observe_backward(torch: ModuleType, clock: StepClock) -> None:
    original, distributed = torch.autograd.backward, torch.distributed
    engine = torch.autograd.Variable._execution_engine
    computed: list[tuple[int, int]] = []
    """When the gradients of this rank were computed, and the exchange time of the step until then."""

    def on_computed() -> None:
        computed.append((clock_ns(), clock.exchange_ns))

    def on_begin(_gradient: object) -> None:
        # Callbacks run in this order after the last gradient: this one before that of DistributedDataParallel, which
        # waits there for the exchange that the computation did not hide.
        engine.queue_callback(on_computed)

    def prepare(roots: Any) -> None:
        root = roots if isinstance(roots, torch.Tensor) else next(iter(roots))
        scaled, unscaled = clock.take_scaled_loss()
        loss = unscaled if scaled is root else root
        # On another device, reading the value would wait for the device.
        if loss.numel() == 1 and loss.device.type == "cpu":
            clock.add_loss(loss.item())
        if distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1:
            root.register_hook(on_begin)

    @wraps(original)
    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        # A backward pass inside of another one, as with reentrant activation checkpointing, is a part of it.
        if clock.phase > OPTIMIZER or not clock.observes:
            return original(tensors, *args, **kwargs)
        before = clock.enter_backward()
        computed.clear()
        try:
            _attempt(clock, prepare, tensors)
            return original(tensors, *args, **kwargs)
        finally:
            if computed:
                start_ns, exchanged_ns = computed[-1]
                clock.exchanged_since(start_ns, clock.exchange_ns - exchanged_ns)
            clock.leave(before)

    torch.autograd.backward = backward


def _attempt(clock: StepClock, function: Callable[[Any], None], argument: Any) -> None:
    """Call a part of the observation that depends on what the script passes; it is left out if that fails."""
    try:
        function(argument)
    except Exception:
        clock.missed += 1


def _observe_data_loaders(torch: ModuleType, clock: StepClock) -> None:
    loader, iterator = torch.utils.data.DataLoader, torch.utils.data.dataloader._BaseDataLoaderIter
    start, advance = loader.__iter__, iterator.__next__

    @wraps(start)
    def __iter__(self: object) -> Any:
        if clock.phase > OPTIMIZER or not clock.observes:
            return start(self)
        before = clock.enter_data()
        try:
            return start(self)
        finally:
            clock.leave(before)

    @wraps(advance)
    def __next__(self: object) -> Any:
        if clock.phase > OPTIMIZER or not clock.observes:
            return advance(self)
        before = clock.enter_data()
        try:
            batch = advance(self)
            clock.loaded(batch_size(batch))
            return batch
        finally:
            clock.leave(before)

    loader.__iter__, iterator.__next__ = __iter__, __next__


def _observe_collectives(torch: ModuleType, clock: StepClock) -> None:
    if not torch.distributed.is_available():
        return
    package, module = torch.distributed, torch.distributed.distributed_c10d
    for name in _COLLECTIVES:
        if original := getattr(module, name, None):
            wrapper = _exchange_wrapper(original, clock)
            setattr(module, name, wrapper)
            if getattr(package, name, None) is original:
                setattr(package, name, wrapper)
    # DistributedDataParallel broadcasts the buffers of the model with it, in the forward pass.
    package._broadcast_coalesced = _exchange_wrapper(package._broadcast_coalesced, clock)
    work = torch._C._distributed_c10d.Work
    work.wait = _exchange_wrapper(work.wait, clock)


def _exchange_wrapper(original: Callable[..., Any], clock: StepClock) -> Callable[..., Any]:
    @wraps(original)
    def exchange(*args: Any, **kwargs: Any) -> Any:
        if clock.phase >= EXCHANGE or not clock.started or not clock.observes:
            return original(*args, **kwargs)
        before = clock.enter(EXCHANGE)
        try:
            return original(*args, **kwargs)
        finally:
            clock.leave_exchange(before)

    return exchange


def _observe_scaler(torch: ModuleType, clock: StepClock) -> None:
    """Record the loss before a gradient scaler multiplies it."""
    scaler = torch.amp.GradScaler
    original = scaler.scale

    @wraps(original)
    def scale(self: Any, outputs: Any) -> Any:
        scaled = original(self, outputs)
        if clock.observes and isinstance(outputs, torch.Tensor) and outputs.numel() == 1:
            clock.scaled_loss = (scaled, outputs)
        return scaled

    scaler.scale = scale


def _observe_saves(torch: ModuleType, clock: StepClock) -> None:
    save = checkpoint_wrapper(torch.save, clock)
    modules: tuple[Any, ...] = (torch, torch.serialization)
    for module in modules:
        module.save = save


def _observe_spawn(torch: ModuleType, clock: StepClock) -> None:
    """Remember that the script starts processes of its own, which are not observed."""
    spawning = sys.modules.get("torch.multiprocessing.spawn")
    if spawning is None:
        return
    original = spawning.start_processes

    @wraps(original)
    def start_processes(*args: Any, **kwargs: Any) -> Any:
        clock.spawned = True
        return original(*args, **kwargs)

    modules: tuple[Any, ...] = (spawning, torch.multiprocessing)
    for module in modules:
        module.start_processes = start_processes
