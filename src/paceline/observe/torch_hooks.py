"""Observes torch without changing it or importing it: its modules are passed in once the script has imported them.

Each function replaces one entry point by a wrapper that tells the clock about it. A wrapper does nothing but call the
original if another thread calls it, or inside of a phase that it would be a part of.
"""

import math
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import wraps
from threading import get_ident
from types import ModuleType
from typing import Any

from paceline.observe.batch_size import batch_size
from paceline.observe.checkpoint_wrapper import checkpoint_wrapper
from paceline.observe.event_clock import COMPUTED, EventClock
from paceline.observe.step_clock import BACKWARD, DATA, EVAL, EXCHANGE, FORWARD, NO_BATCH, OPTIMIZER, OTHER
from paceline.recording.recorder import clock_ns

Note = Callable[[str], None]
"""Called with a line about something that cannot be observed."""
_COLLECTIVES = (
    "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_reduce_coalesced", "all_to_all",
    "all_to_all_single", "barrier", "broadcast", "broadcast_object_list", "gather", "gather_object",
    "monitored_barrier", "recv", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter",
    "scatter_object_list", "send",
)  # fmt: skip


def observe_torch(torch: ModuleType, clock: EventClock, note: Note) -> None:
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


def observe_distributed_checkpoint(module: ModuleType, clock: EventClock, note: Note) -> None:
    """Count what saves the parts of all ranks as checkpoints."""
    for name in ("save", "async_save", "save_state_dict"):
        if original := getattr(module, name, None):
            wrapper = checkpoint_wrapper(original, clock)
            for place in (module, sys.modules.get(original.__module__)):
                if getattr(place, name, None) is original:
                    setattr(place, name, wrapper)


def observe_safetensors(module: ModuleType, clock: EventClock, note: Note) -> None:
    """Count the writing of safetensors files as checkpoints."""
    for name in ("save_file", "save_model"):
        setattr(module, name, checkpoint_wrapper(getattr(module, name), clock))


def _observe_optimizers(torch: ModuleType, clock: EventClock) -> None:
    outermost: object = None
    """The optimizer whose step is under way."""
    phase_before, tell = OTHER, clock.events.append

    def before_step(optimizer: object, *_: object) -> None:
        nonlocal outermost, phase_before
        if get_ident() != clock.thread:
            return
        if outermost is optimizer:
            # Its last step ended with an exception that the script has caught.
            outermost = None
            clock.phase = OTHER
        if outermost is None:
            outermost, phase_before = optimizer, clock.phase
            clock.phase = OPTIMIZER
            tell((OPTIMIZER, clock_ns(), phase_before, None))
            if clock.undecided:
                clock.flush()

    def after_step(optimizer: object, *_: object) -> None:
        nonlocal outermost
        if outermost is optimizer and get_ident() == clock.thread:
            now = clock_ns()
            outermost, clock.phase, clock.backward_passes = None, phase_before, 0
            tell((~OPTIMIZER, now, phase_before, None))
            clock.steps_until_flush -= 1
            if now >= clock.flush_ns or clock.steps_until_flush <= 0:
                clock.flush()

    hooks = sys.modules["torch.optim.optimizer"]  # The attribute of torch.optim is deleted.
    hooks.register_optimizer_step_pre_hook(before_step)
    hooks.register_optimizer_step_post_hook(after_step)


def _observe_modules(torch: ModuleType, clock: EventClock) -> None:
    call, gradients, tell = torch.nn.Module.__call__, torch.is_grad_enabled, clock.events.append

    def begin(before: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        size = _input_size(args or tuple(kwargs.values())) if clock.needs_size else 0
        clock.has_batch = False
        clock.phase = phase = FORWARD if gradients() else EVAL
        tell((phase, clock_ns(), before, size))
        if phase == EVAL or clock.undecided:
            clock.flush()
        return phase

    @wraps(call)
    def inline(self: Any, *args: Any, **kwargs: Any) -> Any:
        # The last line of each branch is what the original does: calling it would cost a call for every module.
        before = clock.phase
        if before > OPTIMIZER or get_ident() != clock.thread:
            return (self._compiled_call_impl or self._call_impl)(*args, **kwargs)
        phase = begin(before, args, kwargs)
        try:
            return (self._compiled_call_impl or self._call_impl)(*args, **kwargs)
        finally:
            tell((~phase, clock_ns(), before, None))
            clock.phase = before

    @wraps(call)
    def around(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = clock.phase
        if before > OPTIMIZER or get_ident() != clock.thread:
            return call(self, *args, **kwargs)
        phase = begin(before, args, kwargs)
        try:
            return call(self, *args, **kwargs)
        finally:
            tell((~phase, clock_ns(), before, None))
            clock.phase = before

    code = getattr(call, "__code__", None)
    is_known = code is not None and code.co_names == ("_compiled_call_impl", "_call_impl")
    torch.nn.Module.__call__ = inline if is_known else around


def _input_size(values: Sequence[Any]) -> int:
    """The number of examples that a module gets; NO_BATCH for the output of another one, such as a loss gets."""
    return NO_BATCH if values and getattr(values[0], "requires_grad", False) else batch_size(values)


def _observe_backward(torch: ModuleType, clock: EventClock) -> None:
    original, tensor_type, tell = torch.autograd.backward, torch.Tensor, clock.events.append
    prepare_exchange = _exchange_observer(torch, clock)

    def loss_of(root: Any) -> tuple[float, int] | None:
        loss = root
        if clock.scaled_loss is not None:
            scaled, unscaled = clock.scaled_loss
            clock.scaled_loss = None  # It keeps the graph of the step in memory.
            loss = unscaled if scaled is root else root
        # On another device, reading the value would wait for the device.
        if not loss.is_cpu or loss.numel() != 1:
            return None
        # Only with gradient accumulation: reading it takes as long as the loss.
        accumulates = clock.backward_passes > 1 or clock.accumulation > 1
        return loss.item(), _divisor(loss.grad_fn) if accumulates else 1

    @wraps(original)
    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        # A backward pass inside of another one, as with reentrant activation checkpointing, is a part of it.
        before = clock.phase
        if before > OPTIMIZER or get_ident() != clock.thread:
            return original(tensors, *args, **kwargs)
        start_ns, loss = clock_ns(), None
        clock.phase = BACKWARD
        clock.backward_passes += 1
        try:
            root = tensors if isinstance(tensors, tensor_type) else next(iter(tensors))
            loss = loss_of(root)
            prepare_exchange(root)
        except Exception:
            # It depends on what the script passes, and is left out if that fails.
            clock.missed += 1
        tell((BACKWARD, start_ns, before, loss))
        if clock.undecided:
            clock.flush()
        try:
            return original(tensors, *args, **kwargs)
        finally:
            tell((~BACKWARD, clock_ns(), before, None))
            clock.phase = before

    torch.autograd.backward = backward


def _divisor(function: Any) -> int:
    """The whole number by which this function of a loss divides, as scripts that accumulate gradients do; else 1."""
    other = getattr(function, "_saved_other", None)
    if other is None or other.numel() != 1:
        return 1
    value, name = float(other), function.name()
    if name == "MulBackward0" and value:
        value = 1 / value
    elif name != "DivBackward0":
        return 1
    whole = round(value) if math.isfinite(value) else 0
    return whole if whole > 1 and math.isclose(value, whole, rel_tol=1e-6) else 1


def _exchange_observer(torch: ModuleType, clock: EventClock) -> Callable[[Any], None]:
    """A function that gets the root of a backward pass, and has the clock told when its gradients are computed."""
    if not torch.distributed.is_available():
        return lambda _root: None
    engine, world = torch.autograd.Variable._execution_engine, torch.distributed.distributed_c10d._world
    known_group: Any = None
    has_peers = False

    tell = clock.events.append

    def gradients_computed() -> None:
        tell((COMPUTED, clock_ns(), BACKWARD, None))

    def on_begin(_gradient: object) -> None:
        # Callbacks run in this order after the last gradient: this one before that of DistributedDataParallel, which
        # waits there for the exchange that the computation did not hide.
        engine.queue_callback(gradients_computed)

    def prepare_exchange(root: Any) -> None:
        nonlocal known_group, has_peers
        group = world.default_pg
        if group is not known_group:
            known_group, has_peers = group, group is not None and group.size() > 1
        if not has_peers:
            return
        function = root.grad_fn
        if function is None or root._backward_hooks is not None:
            root.register_hook(on_begin)
            return
        # What register_hook does, without the handle to remove the hook, which takes most of its time.
        root._backward_hooks = OrderedDict(paceline=on_begin)
        function._register_hook_dict(root)

    return prepare_exchange


def _observe_data_loaders(torch: ModuleType, clock: EventClock) -> None:
    loader, iterator = torch.utils.data.DataLoader, torch.utils.data.dataloader._BaseDataLoaderIter
    start, advance, tell = loader.__iter__, iterator.__next__, clock.events.append

    def begin(before: int) -> None:
        now = clock_ns()
        clock.phase = DATA
        tell((DATA, now, before, None))
        if clock.undecided or now >= clock.flush_ns:
            clock.flush()

    @wraps(start)
    def __iter__(self: object) -> Any:
        before = clock.phase
        if before > OPTIMIZER or get_ident() != clock.thread:
            return start(self)
        begin(before)
        try:
            return start(self)
        finally:
            tell((~DATA, clock_ns(), before, None))
            clock.phase = before

    @wraps(advance)
    def __next__(self: object) -> Any:
        before = clock.phase
        if before > OPTIMIZER or get_ident() != clock.thread:
            return advance(self)
        begin(before)
        size = None
        try:
            batch = advance(self)
            size = batch_size(batch)
            if clock.has_batch:
                clock.needs_size = True
            clock.has_batch = True
            return batch
        finally:
            tell((~DATA, clock_ns(), before, size))
            clock.phase = before

    loader.__iter__, iterator.__next__ = __iter__, __next__


def _observe_collectives(torch: ModuleType, clock: EventClock) -> None:
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


def _exchange_wrapper(original: Callable[..., Any], clock: EventClock) -> Callable[..., Any]:
    tell = clock.events.append

    @wraps(original)
    def exchange(*args: Any, **kwargs: Any) -> Any:
        before = clock.phase
        if before >= EXCHANGE or not clock.started or get_ident() != clock.thread:
            return original(*args, **kwargs)
        clock.phase = EXCHANGE
        tell((EXCHANGE, clock_ns(), before, None))
        try:
            return original(*args, **kwargs)
        finally:
            now = clock_ns()
            tell((~EXCHANGE, now, before, None))
            clock.phase = before
            if now >= clock.flush_ns:
                clock.flush()

    return exchange


def _observe_scaler(torch: ModuleType, clock: EventClock) -> None:
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


def _observe_saves(torch: ModuleType, clock: EventClock) -> None:
    save = checkpoint_wrapper(torch.save, clock)
    modules: tuple[Any, ...] = (torch, torch.serialization)
    for module in modules:
        module.save = save


def _observe_spawn(torch: ModuleType, clock: EventClock) -> None:
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
