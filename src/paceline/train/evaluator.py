"""Evaluation of the model by a worker during training."""

import math

from paceline.data.batches import Batch
from paceline.recording.layout import RecordKind
from paceline.recording.recorder import clock_ns
from paceline.train.context import Outcome, TaskContext
from paceline.train.evaluation import Evaluation
from paceline.train.strategy import HoldsModel, Step, evaluate


class Evaluator:
    """Evaluates on the test set every `eval_every` updates, and records it. One of the chief, or of every worker."""

    def __init__(self, context: TaskContext, strategy: HoldsModel) -> None:
        self._context, self._strategy = context, strategy
        self._test_batches = _limit_examples(context.data.test(), context.job.eval_examples)
        self._every = context.job.eval_every
        self._next = 0
        self._last: tuple[int, Evaluation] | None = None

    def begin(self, updates: int) -> None:
        """Called before the first step."""
        if self._every:
            self._next = (updates // self._every + 1) * self._every

    def wants_to_stop(self, step: Step, outcome: Outcome) -> bool:
        """Evaluate if due. Only the chief decides when to stop."""
        self.evaluate_if_due(step)
        return False

    def evaluate_if_due(self, step: Step) -> Evaluation | None:
        """The evaluation, if one is due after this step: at the first step with the global parameters from then on."""
        if not self._every or not self._test_batches or step.update < self._next or not step.has_global_parameters:
            return None
        self._next = (step.update // self._every + 1) * self._every
        return self._evaluate(step.update, final=False)

    def evaluate_at_end(self, update: int) -> Evaluation | None:
        """The final evaluation; None if there is no test set."""
        return self._evaluate(update, final=True) if self._test_batches else None

    def _evaluate(self, update: int, *, final: bool) -> Evaluation:
        start = clock_ns()
        if self._last and self._last[0] == update and self._context.job.synchronous:
            evaluation = self._last[1]
        else:
            with self._context.recorder.busy(RecordKind.EVAL):
                evaluation = evaluate(self._strategy, self._context.model.loss, self._test_batches)
        self._last = (update, evaluation)
        accuracy = math.nan if evaluation.accuracy is None else evaluation.accuracy
        self._context.recorder.evaluation(start, update, evaluation.loss, accuracy, final=final)
        return evaluation


def _limit_examples(batches: list[Batch], examples: int | None) -> list[Batch]:
    """The first `examples` examples of a test set; all if None."""
    if examples is None:
        return batches
    selected, remaining = [], examples
    for batch in batches:
        if remaining > 0:
            selected.append(Batch(tuple(array[:remaining] for array in batch.inputs), batch.target[:remaining]))
            remaining -= len(selected[-1].target)
    return selected
