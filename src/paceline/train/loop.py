"""The training loop of a worker, the same for every engine and strategy."""

import math

import numpy as np
from safetensors.numpy import save

from paceline.spec.stop import StopRule, first_that_holds, limiting_rule
from paceline.train.batches import Batches, Images, Labels
from paceline.train.context import Outcome, TaskContext
from paceline.train.recorder import clock_ns
from paceline.train.strategy import Evaluation, Step, WorkerStrategy, evaluate

_EVAL_CHUNK = 2_000


def train(context: TaskContext, strategy: WorkerStrategy) -> Outcome:
    """Step until the run is over; the chief also evaluates, decides when that is, and leaves the parameters."""
    job = context.job
    chief = Chief(context, strategy) if job.is_chief else None
    batches = _batches(context)
    batches.at(0)  # The first permutation is drawn before the clock starts.
    context.rendezvous.start_together()
    outcome = Outcome(started_ns=clock_ns())
    if strategy.start():
        _steps(context, strategy, batches, chief, outcome)
    strategy.finish()
    if chief:
        chief.conclude(outcome)
    strategy.close()
    return outcome


def _steps(
    context: TaskContext, strategy: WorkerStrategy, batches: Batches, chief: "Chief | None", outcome: Outcome
) -> None:
    recorder, counted = context.recorder, context.job.synchronous
    limit = context.job.update_limit if counted else None
    number = 0
    while True:
        start = clock_ns()
        with recorder.data:
            x, y = batches.at(number)
        step = strategy.step(x, y)
        if not step.applied:
            return
        recorder.end_step(start, step.update, step.loss, step.staleness)
        number += 1
        outcome.steps, outcome.updates, outcome.ended_ns = number, step.update, clock_ns()
        wish = chief.wants_to_stop(step, outcome) if chief else False
        # A counted limit is known to all workers of a synchronous run: no need to talk about it.
        if (limit is not None and step.update >= limit) or not step.more or strategy.stop_now(wish, step.update):
            return


class Chief:
    """What worker 0 does beside stepping."""

    def __init__(self, context: TaskContext, strategy: WorkerStrategy) -> None:
        self._context, self._strategy = context, strategy
        self._chunks = _test_chunks(context)
        self._every = context.job.eval_every
        self._next = self._every or math.inf
        self._last: tuple[int, Evaluation] | None = None

    def wants_to_stop(self, step: Step, outcome: Outcome) -> bool:
        job = self._context.job
        evaluation = None
        if step.update >= self._next and self._every:
            evaluation = self._evaluate(step.update, final=False)
            self._next = (step.update // self._every + 1) * self._every
        now = clock_ns()
        rule = first_that_holds(
            job.stop,
            update=step.update,
            seconds=(now - outcome.started_ns) / 1e9,
            updates_per_epoch=job.updates_per_epoch,
            loss=evaluation.loss if evaluation else None,
            accuracy=evaluation.accuracy if evaluation else None,
        )
        if rule:
            self._reach(rule, outcome, now, step.update)
        outcome.diverged = not math.isfinite(step.loss)
        return rule is not None or outcome.diverged or self._context.rendezvous.halted.is_set()

    def conclude(self, outcome: Outcome) -> None:
        """Final evaluation and parameters, after every worker's last update."""
        job = self._context.job
        evaluation = self._evaluate(outcome.updates, final=True)
        outcome.loss, outcome.accuracy = evaluation.loss, evaluation.accuracy
        outcome.diverged = outcome.diverged or not math.isfinite(evaluation.loss)
        limit = limiting_rule(job.stop, job.updates_per_epoch)
        cut_short = outcome.diverged or self._context.rendezvous.halted.is_set()
        if outcome.reached is None and limit and not job.synchronous and not cut_short:
            # In an asynchronous run the limit may be reached by another worker's update.
            self._reach(limit[1], outcome, outcome.ended_ns, limit[0])
        self._context.rendezvous.attach("checkpoint", "final.safetensors", save(self._strategy.parameters()))

    def _evaluate(self, update: int, *, final: bool) -> Evaluation:
        start = clock_ns()
        if self._last and self._last[0] == update and self._context.job.synchronous:
            evaluation = self._last[1]
        else:
            evaluation = evaluate(self._strategy, self._chunks)
        self._last = (update, evaluation)
        self._context.recorder.evaluation(start, update, evaluation.loss, evaluation.accuracy, final=final)
        return evaluation

    def _reach(self, rule: StopRule, outcome: Outcome, now_ns: int, update: int) -> None:
        outcome.reached, outcome.reached_ns, outcome.reached_update = str(rule), now_ns, update


def _batches(context: TaskContext) -> Batches:
    job, data = context.job, context.data
    return Batches(
        data.train_x,
        data.train_y,
        scale=data.scale,
        batch=job.batch,
        workers=job.workers,
        index=job.index,
        seed=job.seed,
    )


def _test_chunks(context: TaskContext) -> list[tuple[Images, Labels]]:
    data = context.data
    images = (data.test_x * data.scale).astype(np.float32)
    return [
        (images[start : start + _EVAL_CHUNK], data.test_y[start : start + _EVAL_CHUNK])
        for start in range(0, len(images), _EVAL_CHUNK)
    ]
