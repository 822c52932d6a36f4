"""Observes `fit` of Keras by a callback, whatever the backend. Keras is passed in once the script has imported it."""

from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

from paceline.observe.checkpoint_wrapper import checkpoint_wrapper
from paceline.observe.step_clock import EVAL, FORWARD, OPTIMIZER, StepClock


def observe_keras(keras: ModuleType, clock: StepClock, _note: Callable[[str], None]) -> None:
    """Add a callback to every call of `fit`. One batch of `fit` is one step, which Keras computes in one call."""
    model = keras.Model
    original = model.fit

    class StepCallback(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        """Forward, backward, exchange and optimizer are one function of the backend: all of it counts as forward."""

        def __init__(self, batch: int) -> None:
            super().__init__()
            self._batch, self._before, self._eval_before = batch, 0, 0
            self._in_batch = self._in_eval = False

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if clock.observes and not self._in_batch:
                self._before, self._in_batch = clock.enter_phase(FORWARD), True

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if clock.observes and self._in_batch:
                self._in_batch = False
                clock.leave(self._before)
                loss = (logs or {}).get("loss")
                if loss is not None:
                    clock.set_metrics(float(loss), None)
                clock.end_step(self._batch)

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
        own = StepCallback(_batch_size(args, kwargs))
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


def _batch_size(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Examples in a batch: of a data set those of its first batches are not known here, then 0."""
    given = kwargs.get("batch_size", args[2] if len(args) > 2 else None)
    if given:
        return int(given)
    data = kwargs.get("x", args[0] if args else None)
    return 32 if hasattr(data, "shape") else int(getattr(data, "_batch_size", 0) or 0)
