"""Products of blocks on the v1 runtime: blocks are variables of the workers, which read each other's.

Worker 0 adds up: each of the others hands its part in through a queue of its own and takes the sum from another, so
that parts are added in the workers' order and nobody is a round ahead.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import tensorflow as tf

from paceline.data.batches import Array
from paceline.engines.tensorflow.cluster import start_server, worker_device
from paceline.engines.tensorflow.session import Session
from paceline.engines.tensorflow.tensorboard_graph import graph_event
from paceline.train.context import TaskContext
from paceline.train.matmul_worker import MatmulWorker
from paceline.workloads.block_matmul import BlockMatmul

tf1 = tf.compat.v1


class BlockMatmulWorker(MatmulWorker):
    def __init__(self, context: TaskContext, product: BlockMatmul) -> None:
        super().__init__(context, product)
        job = context.job
        self._alone = job.workers == 1
        self._server = None if self._alone else start_server(context)
        graph = tf1.Graph()
        with graph.as_default():
            first_values = self._build()
        graph.finalize()
        target = self._server.target if self._server else ""
        self._session = Session(target, graph, job.threads)
        self._session.run(self._initialize, first_values)
        self._run_fetch = self._session.make_callable(self._fetched)
        self._run_multiply = self._session.make_callable(self._traces)
        if not self._alone:
            self._run_sum = self._session.make_callable(self._sum, [self._part])
        self._warm_up()
        if job.is_chief:
            context.rendezvous.attach("tensorboard", "events.out.tfevents.graph", graph_event(graph))

    def finish(self) -> None:
        if self._alone:
            return
        with self._recorder.wait:
            if self._job.is_chief:
                self._session.run(self._await_done)
                return
            # The chief exits as soon as it has the token, perhaps before its response to this call arrives.
            with suppress(tf.errors.UnavailableError, tf.errors.AbortedError):
                self._session.run(self._send_done)

    def close(self) -> None:
        """The process ends right after; closing the session would tell peers that may be gone."""

    def _fetch(self) -> None:
        self._run_fetch()

    def _multiply(self) -> float:
        return float(self._run_multiply())

    def _all_sum(self, numbers: Sequence[float]) -> list[float]:
        return self._run_sum(numbers).tolist()

    # ---- how it is made ----

    def _build(self) -> dict[Any, Array]:
        """Returns what to feed for this worker's blocks to get their values."""
        job, product = self._job, self._product
        held = product.partners_of(job.index, job.workers)
        left = {(i, j): self._variable("A", i, j, job.index) for i, j in self._pairs}
        right = {
            (i, j): self._variable("B", j, i, self._owner_of_partner(i, j))
            for i, j in dict.fromkeys([*self._pairs, *held])
        }
        arrived = {(i, j): self._variable("arrived", j, i, job.index) for i, j in self._remote_pairs}
        with tf.name_scope("pull"):
            self._fetched = tf.group(*(copy.assign(self._read(right, pair)).op for pair, copy in arrived.items()))
        with self._on(job.index), tf.name_scope("compute"):
            factors = right | arrived
            products = [tf.matmul(left[pair], factors[pair]) for pair in self._pairs]
            traces = [tf.reduce_sum(tf.cast(tf.linalg.diag_part(one), tf.float64)) for one in products]
            self._traces = tf.add_n([tf.zeros([], tf.float64), *traces])
        if not self._alone:
            self._build_sum()
            self._build_end()
        mine = [(left[i, j], product.block("A", i, j, job.seed)) for i, j in self._pairs]
        mine += [(right[i, j], product.block("B", j, i, job.seed)) for i, j in held]
        with self._on(job.index), tf.name_scope("first"):
            feeds = [tf1.placeholder(tf.float32, block.shape) for _, block in mine]
            self._initialize = tf.group(*(v.assign(feed).op for (v, _), feed in zip(mine, feeds, strict=True)))
        return {feed: block for (_, block), feed in zip(mine, feeds, strict=True)}

    def _variable(self, matrix: str, row: int, column: int, home: int) -> Any:
        """All workers' graphs know a block by the same name, so it is the same variable."""
        side = self._product.side
        with self._on(home):
            return tf1.get_variable(
                f"{matrix}_{row}_{column}", [side, side], tf.float32, tf1.zeros_initializer(), use_resource=True
            )

    def _read(self, variables: dict[tuple[int, int], Any], pair: tuple[int, int]) -> Any:
        with self._on(self._owner_of_partner(*pair)):
            return variables[pair].read_value()

    def _build_sum(self) -> None:
        job = self._job
        with self._on(job.index):
            self._part = tf1.placeholder(tf.float64, [2], name="part")
        with self._on(0), tf.name_scope("push"):
            parts, sums = ([self._queue(f"{name}{n}", [2]) for n in range(job.workers)] for name in ("part", "sum"))
            if job.is_chief:
                total = tf.add_n([self._part, *(queue.dequeue() for queue in parts[1:])])
                with tf.control_dependencies([queue.enqueue(total) for queue in sums[1:]]):
                    self._sum = tf.identity(total)
            else:
                with tf.control_dependencies([parts[job.index].enqueue(self._part)]):
                    self._sum = sums[job.index].dequeue()

    def _build_end(self) -> None:
        """A queue of tokens by which the chief, which adds up the sums, learns that all others have their last sum."""
        with self._on(0):
            done = self._queue("done", [])
            self._send_done, self._await_done = done.enqueue(0.0), done.dequeue_many(self._job.workers - 1).op

    def _queue(self, name: str, shape: list[int]) -> Any:
        return tf1.FIFOQueue(-1, tf.float64, [shape], shared_name=name, name=f"queue/{name}")

    def _on(self, worker: int) -> Any:
        return tf.device(None if self._alone else worker_device(worker))
