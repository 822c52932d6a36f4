"""Observes `fit` of Keras by a callback, whatever the backend. Keras is passed in once the script has imported it."""

import math
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any, NamedTuple

from paceline.observe.checkpoint_wrapper import checkpoint_wrapper
from paceline.observe.step_clock import EVAL, FORWARD, OPTIMIZER, StepClock


def observe_keras(keras: ModuleType, clock: StepClock, _note: Callable[[str], None]) -> None:
    """Add a callback to every call of `fit`. One batch of `fit` is one step, which Keras computes in one call."""
    model = keras.Model
    original = model.fit

    class StepCallback(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        """Forward, backward, exchange and optimizer are one function of the backend: all of it counts as forward."""

        def __init__(self, batches: Batches) -> None:
            super().__init__()
            self._batches, self._before, self._eval_before = batches, 0, 0
            self._in_batch = self._in_eval = False
            self._loss = LossOfBatches(batches)

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self._loss = LossOfBatches(self._batches)

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if clock.observes and not self._in_batch:
                self._before, self._in_batch = clock.enter_phase(FORWARD), True

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if clock.observes and self._in_batch:
                self._in_batch = False
                clock.leave(self._before)
                loss = (logs or {}).get("loss")
                if loss is not None:
                    # A script's own `train_step` may report anything as the loss.
                    is_mean = type(self.model).train_step is model.train_step
                    clock.set_metrics(self._loss.of(batch, float(loss)) if is_mean else float(loss), None)
                clock.end_step(self._batches.size(batch))

        def on_test_begin(self, logs: Any = None) -> None:
            if clock.observes and clock.phase <= OPTIMIZER:
                self._eval_before, self._in_eval = clock.enter_phase(EVAL), True

        def on_test_end(self, logs: Any = None) -> None:
            if clock.observes and self._in_eval:
                self._in_eval = False
                logs = logs or {}
                clock.set_metrics(logs.get("loss"), logs.get("accuracy"))
                clock.record_evaluation(self._eval_before)

    @wraps(original)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not clock.observes or len(args) > _CALLBACKS:
            return original(self, *args, **kwargs)
        callbacks = kwargs.get("callbacks")
        try:
            batches = batches_of_fit(args, kwargs)
        except Exception:
            # Keras itself says what is wrong with the arguments.
            batches = Batches(0, math.inf)
        own = StepCallback(batches)
        if isinstance(callbacks, keras.callbacks.CallbackList):
            callbacks.append(own)
        else:
            given = callbacks if isinstance(callbacks, list | tuple) else [callbacks] if callbacks else []
            kwargs["callbacks"] = [*given, own]
        # The torch backend would report forward and backward passes as well; one batch is one step all the same.
        clock.manual = True
        return original(self, *args, **kwargs)

    model.fit = fit
    for name in ("save", "save_weights"):
        setattr(model, name, checkpoint_wrapper(getattr(model, name), clock))


_CALLBACKS = 5
"""The position of `callbacks` among the arguments of `fit`, of which scripts give only the first few by position."""
_DEFAULT_BATCH = 32


class Batches(NamedTuple):
    """What is known of the batches of an epoch."""

    most: int
    """Examples of every batch but the last one; 0 if not known."""
    examples: float
    """Examples of an epoch."""

    def size(self, batch: int) -> int:
        """Examples of the batch with this number."""
        return int(max(0, min(self.most, self.examples - batch * self.most)))


class LossOfBatches:
    """Computes the loss of each batch of an epoch: Keras reports the mean over all examples of the epoch so far."""

    def __init__(self, batches: Batches) -> None:
        self._batches, self._sum, self._examples = batches, 0.0, 0

    def of(self, batch: int, mean: float) -> float:
        """The loss of the next batch, after which Keras reports this mean."""
        examples = self._batches.size(batch) or 1
        before, self._examples = self._sum, self._examples + examples
        self._sum = mean * self._examples
        return (self._sum - before) / examples


def batches_of_fit(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Batches:
    """The batches of `fit`. Only arrays tell the number of examples, only arrays and data sets that of a batch."""
    data = kwargs.get("x", args[0] if args else None)
    given = kwargs.get("batch_size", args[2] if len(args) > 2 else None)
    while isinstance(data, list | tuple | dict) and data:
        data = next(iter(data.values())) if isinstance(data, dict) else data[0]
    shape = getattr(data, "shape", None)
    if not shape:
        return Batches(int(given or getattr(data, "_batch_size", 0) or 0), math.inf)
    split = 0.0 if kwargs.get("validation_data") is not None else kwargs.get("validation_split") or 0.0
    examples = math.inf if kwargs.get("steps_per_epoch") else math.floor(shape[0] * (1.0 - split))
    return Batches(int(given or _DEFAULT_BATCH), examples)
