"""The training loop of a worker, the same for every engine and strategy."""

import math

from safetensors.numpy import save

from paceline.data.batches import Batch, Examples
from paceline.errors import STEP_NOTE
from paceline.recording.layout import RecordKind
from paceline.recording.recorder import clock_ns
from paceline.spec.stop import Improvement, StopRule, first_met_rule, limiting_rule
from paceline.train.checkpoint import encode, file_name
from paceline.train.checkpoint_schedule import CheckpointSchedule
from paceline.train.context import Job, Outcome, TaskContext
from paceline.train.dropout import Masks
from paceline.train.evaluation import Evaluation
from paceline.train.evaluator import Evaluator
from paceline.train.exchange_count import ExchangeCount
from paceline.train.flops_probe import operations_per_cpu_s
from paceline.train.histograms import attach_histograms
from paceline.train.strategy import (
    HasServers,
    HoldsModel,
    Prefetches,
    SnapshotsState,
    Step,
    WorkerStrategy,
)
from paceline.train.user_model import UserModel
from paceline.workloads.model import AnyModel


def train(context: TaskContext, strategy: WorkerStrategy) -> Outcome:
    """Make steps until the run is over. The chief also evaluates, decides when to stop, and stores the parameters."""
    job = context.job
    chief = Chief(context, strategy) if job.is_chief else None
    evaluator = Evaluator(context, strategy) if job.evaluates and not chief else None
    if chief:
        if isinstance(context.model, UserModel):
            context.model.check_outputs()
        chief.try_evaluation()
    batches = BatchSource(job, context.model, context.data)
    batches.at(job.first_step)  # Draws the first permutation before the clock starts.
    flops = operations_per_cpu_s()
    context.rendezvous.start_together()
    outcome = Outcome(started_ns=clock_ns(), operations_per_cpu_s=flops)
    updates = strategy.start()
    if updates is not None:
        if observer := chief or evaluator:
            observer.begin(updates)
        first = updates if job.synchronous else job.first_step
        exchange = ExchangeCount(strategy)
        try:
            _steps(context, strategy, batches, chief or evaluator, outcome, exchange, first)
        finally:
            context.recorder.drop_step()
        if exchanged := exchange.total():
            outcome.sent_bytes, outcome.received_bytes = exchanged.sent, exchanged.received
            outcome.exchange_steps = outcome.steps - first
    else:
        outcome.steps = job.first_step
    # Marked as busy: other workers may still be in a long step, and this one waits for them.
    with context.recorder.busy(RecordKind.WAIT):
        strategy.finish()
        if chief:
            chief.finish(outcome)
        strategy.close()
    return outcome


class BatchSource:
    """The batches of this worker, with dropout masks if the model has dropout layers."""

    def __init__(self, job: Job, model: AnyModel, data: Examples) -> None:
        share = job.share
        self._stream = data.stream(share)
        self._masks = Masks(model, share) if model.mask_sizes else None
        self._next_batch: tuple[int, Batch] | None = None

    def at(self, step: int) -> Batch:
        """The batch of a step. The next call overwrites its arrays."""
        return self._draw(step)

    def batch_and_next(self, step: int) -> tuple[Batch, Batch]:
        """The batches of a step and of the step after it, each with its own arrays."""
        now = self._next_batch[1] if self._next_batch and self._next_batch[0] == step else _copy(self._draw(step))
        self._next_batch = (step + 1, _copy(self._draw(step + 1)))
        return now, self._next_batch[1]

    def _draw(self, step: int) -> Batch:
        batch = self._stream.at(step)
        if self._masks is None:
            return batch
        return Batch((*batch.inputs, *self._masks.at(step)), batch.target)


def _steps(
    context: TaskContext,
    strategy: WorkerStrategy,
    batches: BatchSource,
    observer: "Chief | Evaluator | None",
    outcome: Outcome,
    exchange: ExchangeCount,
    first: int,
) -> None:
    """Make steps from number `first` on, until the run is over."""
    recorder, record, synchronous = context.recorder, context.recorder.current, context.job.synchronous
    limit = context.job.update_limit if synchronous else None
    prefetching = strategy if isinstance(strategy, Prefetches) else None
    counts_examples = isinstance(context.model, UserModel)  # The batches of a user's data may differ in size.
    other_examples = 0
    record.step = number = outcome.steps = first
    while True:
        record.start_ns = clock_ns()
        if prefetching:
            batch, next_batch = batches.batch_and_next(number)
            prefetching.prefetch(next_batch)
        else:
            batch = batches.at(number)
        record.data_end_ns = clock_ns()
        exchange.step_begins()
        try:
            step = strategy.step(batch)
        except Exception as error:
            error.add_note(f"{STEP_NOTE}{number} with {_describe(batch)}")
            raise
        end_ns = clock_ns()
        if step.applied:
            recorder.end_step(end_ns, step.update, step.loss, step.staleness)
            outcome.steps += 1
            if counts_examples:
                other_examples += len(batch.target) - context.job.batch
                outcome.examples = outcome.steps * context.job.batch + other_examples if other_examples else None
        elif step.more:
            recorder.drop_step()
            outcome.dropped += 1
        else:
            exchange.discard_step()
            return
        # With backup workers, one that was left behind continues with the batch of the next update.
        record.step = number = step.update if context.job.backup else number + 1
        outcome.updates, outcome.ended_ns = step.update, end_ns
        chief_wants_stop = observer.wants_to_stop(step, outcome) if observer else False
        # All workers of a synchronous run know the update limit, so it needs no communication.
        if (
            (limit is not None and step.update >= limit)
            or not step.more
            or strategy.stop_now(chief_wants_stop, step.update)
        ):
            return


class Chief:
    """What worker 0 or a driver does beside the steps: evaluation, checkpoints, stop rules, final parameters."""

    def __init__(self, context: TaskContext, strategy: HoldsModel) -> None:
        self._context, self._strategy = context, strategy
        self._evaluator = Evaluator(context, strategy)
        self._checkpoints = CheckpointSchedule(context.job.checkpoint_every)
        self._improvement = Improvement()

    def try_evaluation(self) -> None:
        """Evaluate on one batch before training begins, so that a mistake in the user's code shows at once."""
        self._evaluator.try_once()

    def begin(self, updates: int) -> None:
        """Called before the first step."""
        self._evaluator.begin(updates)
        self._checkpoints.written(updates, self._context.job.trained_s)
        self._announce_checkpoint(updates, self._context.job.trained_s)

    def wants_to_stop(self, step: Step, outcome: Outcome) -> bool:
        """Evaluate and checkpoint if due; whether a stop rule is met, the loss diverged, or the user halted the run."""
        job = self._context.job
        evaluation = self._evaluator.evaluate_if_due(step)
        if evaluation and job.histograms and self._context.model.parameters:
            attach_histograms(self._context.rendezvous, self._strategy.parameters(), step.update)
        now = clock_ns()
        seconds = job.trained_s + (now - outcome.started_ns) / 1e9
        checkpointed = self._checkpoint_if_due(step, seconds)
        rule = first_met_rule(
            job.stop,
            update=step.update,
            seconds=seconds,
            updates_per_epoch=job.updates_per_epoch,
            qualities=evaluation.qualities if evaluation else None,
            since_best_loss=self._since_best_loss(evaluation),
            falling=self._context.workload.falling_metrics,
        )
        if rule:
            self._set_reached(rule, outcome, now, step.update)
        outcome.diverged = not math.isfinite(step.loss)
        # A halted run makes one more step, so that it can store a checkpoint to resume from.
        return rule is not None or outcome.diverged or (checkpointed and self._context.rendezvous.halted.is_set())

    def _since_best_loss(self, evaluation: Evaluation | None) -> int | None:
        """The number of evaluations since the lowest loss; None without a loss."""
        return None if evaluation is None or evaluation.loss is None else self._improvement.add(evaluation.loss)

    def finish(self, outcome: Outcome) -> None:
        """Final evaluation and parameters, after the last update of every worker."""
        job = self._context.job
        if evaluation := self._evaluator.evaluate_at_end(outcome.updates):
            outcome.accuracy, outcome.auc = evaluation.accuracy, evaluation.auc
            outcome.loss, outcome.metrics = evaluation.loss, dict(evaluation.metrics)
            outcome.diverged = outcome.diverged or (evaluation.loss is not None and not math.isfinite(evaluation.loss))
        limit = limiting_rule(job.stop, job.updates_per_epoch)
        cut_short = outcome.diverged or self._context.rendezvous.halted.is_set()
        if outcome.reached is None and limit and not job.synchronous and not cut_short:
            # In an asynchronous run another worker's update may reach the limit.
            self._set_reached(limit[1], outcome, outcome.ended_ns, limit[0])
        if isinstance(self._strategy, HasServers):
            outcome.shard_sizes = self._strategy.shard_sizes()
        if self._context.model.parameters:
            parameters = self._strategy.parameters()
            self._context.rendezvous.attach("checkpoint", "final.safetensors", save(parameters))

    def _checkpoint_if_due(self, step: Step, seconds: float) -> bool:
        """Whether a checkpoint was written."""
        due = self._checkpoints.announced and step.has_global_parameters
        if due:
            with self._context.recorder.checkpoint():
                self._checkpoint(step.update)
            self._checkpoints.written(step.update, seconds)
        self._announce_checkpoint(step.update, seconds)
        return due

    def _announce_checkpoint(self, update: int, seconds: float) -> None:
        at_once = self._context.rendezvous.halted.is_set()
        if self._checkpoints.announce(update, seconds, at_once=at_once) and isinstance(self._strategy, SnapshotsState):
            self._strategy.snapshot_next_update()

    def _checkpoint(self, update: int) -> None:
        """Store a checkpoint with the run, if the model has parameters."""
        if self._context.model.parameters:
            state = self._strategy.state(update)
            self._context.rendezvous.attach("checkpoint", file_name(state.update), encode(state))

    def _set_reached(self, rule: StopRule, outcome: Outcome, now_ns: int, update: int) -> None:
        outcome.reached, outcome.reached_ns, outcome.reached_update = str(rule), now_ns, update


def _describe(batch: Batch) -> str:
    """`inputs float32 (100, 2), target int64 (100,)`"""
    inputs = " and ".join(f"{array.dtype} {array.shape}" for array in batch.inputs)
    return f"inputs {inputs}, target {batch.target.dtype} {batch.target.shape}"


def _copy(batch: Batch) -> Batch:
    return Batch(tuple(array.copy() for array in batch.inputs), batch.target.copy())
