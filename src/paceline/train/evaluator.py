"""Evaluation of the model by a worker during training."""

import math
from collections.abc import Collection

from paceline.data.batches import Batch
from paceline.errors import WorkloadError
from paceline.recording.layout import RecordKind
from paceline.recording.recorder import clock_ns
from paceline.train.context import Outcome, TaskContext
from paceline.train.evaluation import Evaluation
from paceline.train.strategy import HoldsModel, Step, evaluate
from paceline.workloads.model import Loss, LossFunction
from paceline.workloads.user_workload import is_user_workload


class Evaluator:
    """Evaluates on the test set every `eval_every` updates, and records it. One of the chief, or of every worker."""

    def __init__(self, context: TaskContext, strategy: HoldsModel) -> None:
        self._context, self._strategy = context, strategy
        job, workload = context.job, context.workload
        self._test_batches = [] if job.eval_every == 0 else _limit_examples(context.data.test(), job.eval_examples)
        self._every = job.eval_every
        self._metrics = {*workload.metric_names, *(rule.kind for rule in job.stop if rule.is_target)}
        self._next = 0
        self._last: tuple[int, Evaluation] | None = None

    def try_once(self) -> None:
        """Evaluate a user's workload on the first batch of the test set, without recording the result.

        WorkloadError if the test set lacks what a metric needs, or the user's function does not return a metric.
        """
        workload, job = self._context.workload, self._context.job
        # The parameters of a sparse model are on servers that do not answer before training begins.
        if not is_user_workload(job.workload) or self._context.model.by_rows:
            return
        check_test_set(self._test_batches, workload.trained_for, self._metrics, needed=job.eval_every != 0)
        if not self._test_batches:
            return
        found = self._evaluate_on(self._test_batches[:1]).qualities
        if not workload.evaluate:
            return
        needed = {metric.name: "metrics declares" for metric in workload.own_metrics}
        needed |= {rule.kind: f"the stop rule '{rule}' needs" for rule in job.stop if rule.is_target}
        for name, why in needed.items():
            if name not in found:
                raise WorkloadError(
                    f"evaluate returns no {name}, which {why}; it returns {', '.join(found) or 'nothing'}"
                )

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
                evaluation = self._evaluate_on(self._test_batches)
        self._last = (update, evaluation)
        loss, accuracy = (math.nan if value is None else value for value in (evaluation.loss, evaluation.accuracy))
        self._context.recorder.evaluation(start, update, loss, accuracy, final=final)
        return evaluation

    def _evaluate_on(self, batches: list[Batch]) -> Evaluation:
        context = self._context
        return evaluate(self._strategy, context.model, batches, self._metrics, context.workload.evaluate)


def check_test_set(batches: list[Batch], loss: Loss | LossFunction, metrics: Collection[str], *, needed: bool) -> None:
    """WorkloadError if the requested metrics of a model with this loss cannot be computed of any of these batches."""
    if not metrics or not needed:
        return
    if not batches:
        names = " and ".join(sorted(metrics))
        raise WorkloadError(f"the test set has no batch to compute {names} of: let test return at least one")
    targets = [batch.target for batch in batches]
    if loss == "softmax" and all(target.size and target.max() < 0 for target in targets):
        raise WorkloadError("all labels of the test set are below 0, so that none counts: label some examples")
    if (
        loss == "logistic"
        and "auc" in metrics
        and len({bool(label > 0) for target in targets for label in target.flat}) < 2
    ):
        raise WorkloadError("the test set has labels of only one class, but auc needs both: add the other")


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
