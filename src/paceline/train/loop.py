"""The training loop of a worker, the same for every engine and strategy."""

import math

from safetensors.numpy import save

from paceline.data.batches import Batch, Share
from paceline.recording.layout import RecordKind
from paceline.recording.recorder import clock_ns
from paceline.spec.stop import StopRule, first_met_rule, limiting_rule
from paceline.train.checkpoint import encode, file_name
from paceline.train.checkpoint_schedule import CheckpointSchedule
from paceline.train.context import Outcome, TaskContext
from paceline.train.dropout import Masks
from paceline.train.evaluation import Evaluation
from paceline.train.flops_probe import operations_per_cpu_s
from paceline.train.strategy import HasServers, Prefetches, SnapshotsState, Step, WorkerStrategy, evaluate


def train(context: TaskContext, strategy: WorkerStrategy) -> Outcome:
    """Step until the run is over; the chief also evaluates, decides when that is, and leaves the parameters."""
    job = context.job
    chief = Chief(context, strategy) if job.is_chief else None
    batches = Feeder(context)
    batches.at(job.first_step)  # The first permutation is drawn before the clock starts.
    speed = operations_per_cpu_s()
    context.rendezvous.start_together()
    outcome = Outcome(started_ns=clock_ns(), operations_per_cpu_s=speed)
    updates = strategy.start()
    if updates is not None:
        if chief:
            chief.begin(updates)
        first = updates if job.synchronous else job.first_step
        try:
            _steps(context, strategy, batches, chief, outcome, first)
        finally:
            context.recorder.drop_step()
    else:
        outcome.steps = job.first_step
    # Others may still be at a step of theirs, however long it takes.
    with context.recorder.busy(RecordKind.WAIT):
        strategy.finish()
        if chief:
            chief.conclude(outcome)
        strategy.close()
    return outcome


class Feeder:
    """This worker's batches, with the masks of dropout if the model has any."""

    def __init__(self, context: TaskContext) -> None:
        job, model = context.job, context.model
        share = Share(batch=job.batch, workers=job.workers, index=job.index, seed=job.seed)
        self._stream = context.data.stream(share)
        self._masks = Masks(model, share) if model.mask_sizes else None
        self._ahead: tuple[int, Batch] | None = None

    def at(self, step: int) -> Batch:
        """This step's batch; it is overwritten by the next."""
        return self._draw(step)

    def pair_at(self, step: int) -> tuple[Batch, Batch]:
        """This step's batch and the next one's, each with arrays of its own."""
        now = self._ahead[1] if self._ahead and self._ahead[0] == step else _copy(self._draw(step))
        self._ahead = (step + 1, _copy(self._draw(step + 1)))
        return now, self._ahead[1]

    def _draw(self, step: int) -> Batch:
        batch = self._stream.at(step)
        if self._masks is None:
            return batch
        return Batch((*batch.inputs, *self._masks.at(step)), batch.target)


def _steps(
    context: TaskContext, strategy: WorkerStrategy, batches: Feeder, chief: "Chief | None", outcome: Outcome, first: int
) -> None:
    """`first` is the number of the first step to make: those before it are made."""
    recorder, record, counted = context.recorder, context.recorder.current, context.job.synchronous
    limit = context.job.update_limit if counted else None
    ahead = strategy if isinstance(strategy, Prefetches) else None
    record.step = number = outcome.steps = first
    while True:
        record.start_ns = clock_ns()
        if ahead:
            batch, upcoming = batches.pair_at(number)
            ahead.expect(upcoming)
        else:
            batch = batches.at(number)
        record.data_end_ns = clock_ns()
        step = strategy.step(batch)
        end_ns = clock_ns()
        if step.applied:
            recorder.end_step(end_ns, step.update, step.loss, step.staleness)
            outcome.steps += 1
        elif step.more:
            recorder.drop_step()
            outcome.dropped += 1
        else:
            return
        # One who was left behind goes on with the batch of the update that comes next.
        record.step = number = step.update if context.job.backup else number + 1
        outcome.updates, outcome.ended_ns = step.update, end_ns
        wish = chief.wants_to_stop(step, outcome) if chief else False
        # A counted limit is known to all workers of a synchronous run: no need to talk about it.
        if (limit is not None and step.update >= limit) or not step.more or strategy.stop_now(wish, step.update):
            return


class Chief:
    """What worker 0 does beside stepping."""

    def __init__(self, context: TaskContext, strategy: WorkerStrategy) -> None:
        self._context, self._strategy = context, strategy
        self._pieces = _first(context.data.test(), context.job.eval_examples)
        self._every = context.job.eval_every
        self._next = 0
        self._checkpoints = CheckpointSchedule(context.job.checkpoint_every)
        self._last: tuple[int, Evaluation] | None = None

    def begin(self, updates: int) -> None:
        """Before the first step."""
        if self._every:
            self._next = (updates // self._every + 1) * self._every
        self._checkpoints.made(updates, self._context.job.trained_s)
        self._announce_checkpoint(updates, self._context.job.trained_s)

    def wants_to_stop(self, step: Step, outcome: Outcome) -> bool:
        job = self._context.job
        evaluation = None
        if self._every and self._pieces and step.update >= self._next:
            evaluation = self._evaluate(step.update, final=False)
            self._next = (step.update // self._every + 1) * self._every
        now = clock_ns()
        seconds = job.trained_s + (now - outcome.started_ns) / 1e9
        left = self._checkpoint_if_due(step.update, seconds)
        rule = first_met_rule(
            job.stop,
            update=step.update,
            seconds=seconds,
            updates_per_epoch=job.updates_per_epoch,
            loss=evaluation.loss if evaluation else None,
            accuracy=evaluation.accuracy if evaluation else None,
        )
        if rule:
            self._reach(rule, outcome, now, step.update)
        outcome.diverged = not math.isfinite(step.loss)
        # A run that is halted goes on for one step, to leave what it can be resumed from.
        return rule is not None or outcome.diverged or (left and self._context.rendezvous.halted.is_set())

    def conclude(self, outcome: Outcome) -> None:
        """Final evaluation and parameters, after every worker's last update."""
        job = self._context.job
        if self._pieces:
            evaluation = self._evaluate(outcome.updates, final=True)
            outcome.loss, outcome.accuracy, outcome.auc = evaluation.loss, evaluation.accuracy, evaluation.auc
            outcome.diverged = outcome.diverged or not math.isfinite(evaluation.loss)
        limit = limiting_rule(job.stop, job.updates_per_epoch)
        cut_short = outcome.diverged or self._context.rendezvous.halted.is_set()
        if outcome.reached is None and limit and not job.synchronous and not cut_short:
            # In an asynchronous run the limit may be reached by another worker's update.
            self._reach(limit[1], outcome, outcome.ended_ns, limit[0])
        if isinstance(self._strategy, HasServers):
            outcome.shard_sizes = self._strategy.shard_sizes()
        if self._context.model.parameters:
            parameters = self._strategy.parameters()
            self._context.rendezvous.attach("checkpoint", "final.safetensors", save(parameters))

    def _checkpoint_if_due(self, update: int, seconds: float) -> bool:
        """Whether one was left."""
        due = self._checkpoints.announced
        if due:
            with self._context.recorder.checkpoint():
                self._checkpoint(update)
            self._checkpoints.made(update, seconds)
        self._announce_checkpoint(update, seconds)
        return due

    def _announce_checkpoint(self, update: int, seconds: float) -> None:
        at_once = self._context.rendezvous.halted.is_set()
        if self._checkpoints.announce(update, seconds, at_once=at_once) and isinstance(self._strategy, SnapshotsState):
            self._strategy.snapshot_next_update()

    def _checkpoint(self, update: int) -> None:
        """Everything to go on from, as a file of the run; nothing if there is nothing."""
        if self._context.model.parameters:
            state = self._strategy.state(update)
            self._context.rendezvous.attach("checkpoint", file_name(state.update), encode(state))

    def _evaluate(self, update: int, *, final: bool) -> Evaluation:
        start = clock_ns()
        if self._last and self._last[0] == update and self._context.job.synchronous:
            evaluation = self._last[1]
        else:
            with self._context.recorder.busy(RecordKind.EVAL):
                evaluation = evaluate(self._strategy, self._context.model.loss, self._pieces)
        self._last = (update, evaluation)
        accuracy = math.nan if evaluation.accuracy is None else evaluation.accuracy
        self._context.recorder.evaluation(start, update, evaluation.loss, accuracy, final=final)
        return evaluation

    def _reach(self, rule: StopRule, outcome: Outcome, now_ns: int, update: int) -> None:
        outcome.reached, outcome.reached_ns, outcome.reached_update = str(rule), now_ns, update


def _copy(batch: Batch) -> Batch:
    return Batch(tuple(array.copy() for array in batch.inputs), batch.target.copy())


def _first(pieces: list[Batch], examples: int | None) -> list[Batch]:
    """Of a test set, so many examples; all if no number is given."""
    if examples is None:
        return pieces
    kept, left = [], examples
    for piece in pieces:
        if left > 0:
            kept.append(Batch(tuple(array[:left] for array in piece.inputs), piece.target[:left]))
            left -= len(kept[-1].target)
    return kept
