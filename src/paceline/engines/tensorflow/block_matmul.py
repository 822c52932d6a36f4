"""The TensorFlow worker of the block-matmul workload: blocks are variables on the workers, which read each other's.

Each worker multiplies the blocks A[i, j] that it owns with their partners B[j, i]. A pair is the (i, j) of a product.
Worker 0 computes the sum over all workers. Every other worker has two queues on worker 0: it puts its summand into one
and takes the sum from the other. So the summands are added in the order of the workers, and no worker can be a round
ahead.
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
    """One worker that computes its share of the block products with TensorFlow."""

    def __init__(self, context: TaskContext, product: BlockMatmul) -> None:
        super().__init__(context, product)
        job = context.job
        self._alone = job.workers == 1
        self._server = None if self._alone else start_server(context)
        graph = tf1.Graph()
        with graph.as_default():
            initial_values = self._build()
        graph.finalize()
        target = self._server.target if self._server else ""
        self._session = Session(target, graph, job.threads)
        self._session.run(self._initialize, initial_values)
        self._run_fetch = self._session.make_callable(self._fetch_op)
        self._run_multiply = self._session.make_callable(self._trace_sum)
        if not self._alone:
            self._run_sum = self._session.make_callable(self._sum, [self._summand])
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
            # The chief exits as soon as it has the token, perhaps before its reply to this request arrives here.
            with suppress(tf.errors.UnavailableError, tf.errors.AbortedError):
                self._session.run(self._send_done)

    def close(self) -> None:
        """Do nothing: the process ends now, and closing the session would contact peers that may be gone."""

    def _fetch(self) -> None:
        self._run_fetch()

    def _multiply(self) -> float:
        return float(self._run_multiply())

    def _all_sum(self, numbers: Sequence[float]) -> list[float]:
        return self._run_sum(numbers).tolist()

    # ---- building the graph ----

    def _build(self) -> dict[Any, Array]:
        """Build the graph; returns the feeds that initialise this worker's blocks."""
        job, product = self._job, self._product
        own_partners = product.partners_of(job.index, job.workers)
        left = {(i, j): self._variable("A", i, j, job.index) for i, j in self._pairs}
        right = {
            (i, j): self._variable("B", j, i, self._owner_of_partner(i, j))
            for i, j in dict.fromkeys([*self._pairs, *own_partners])
        }
        copies = {(i, j): self._variable("copy", j, i, job.index) for i, j in self._remote_pairs}
        with tf.name_scope("pull"):
            self._fetch_op = tf.group(*(copy.assign(self._read(right, pair)).op for pair, copy in copies.items()))
        with self._on(job.index), tf.name_scope("compute"):
            factors = right | copies
            products = [tf.matmul(left[pair], factors[pair]) for pair in self._pairs]
            traces = [tf.reduce_sum(tf.cast(tf.linalg.diag_part(block), tf.float64)) for block in products]
            self._trace_sum = tf.add_n([tf.zeros([], tf.float64), *traces])
        if not self._alone:
            self._build_sum()
            self._build_done_queue()
        own_blocks = [(left[i, j], product.block("A", i, j, job.seed)) for i, j in self._pairs]
        own_blocks += [(right[i, j], product.block("B", j, i, job.seed)) for i, j in own_partners]
        with self._on(job.index), tf.name_scope("initial"):
            feeds = [tf1.placeholder(tf.float32, block.shape) for _, block in own_blocks]
            self._initialize = tf.group(
                *(variable.assign(feed).op for (variable, _), feed in zip(own_blocks, feeds, strict=True))
            )
        return {feed: block for (_, block), feed in zip(own_blocks, feeds, strict=True)}

    def _variable(self, matrix: str, row: int, column: int, owner: int) -> Any:
        """The variable of a block on worker `owner`. It has the same name in the graphs of all workers, so it is the
        same variable."""
        side = self._product.side
        with self._on(owner):
            return tf1.get_variable(
                f"{matrix}_{row}_{column}", [side, side], tf.float32, tf1.zeros_initializer(), use_resource=True
            )

    def _read(self, variables: dict[tuple[int, int], Any], pair: tuple[int, int]) -> Any:
        with self._on(self._owner_of_partner(*pair)):
            return variables[pair].read_value()

    def _build_sum(self) -> None:
        """Build the sum of two numbers over all workers."""
        job = self._job
        with self._on(job.index):
            self._summand = tf1.placeholder(tf.float64, [2], name="summand")
        with self._on(0), tf.name_scope("push"):
            summands, sums = (
                [self._queue(f"{name}{worker}", [2]) for worker in range(job.workers)] for name in ("summand", "sum")
            )
            if job.is_chief:
                total = tf.add_n([self._summand, *(queue.dequeue() for queue in summands[1:])])
                with tf.control_dependencies([queue.enqueue(total) for queue in sums[1:]]):
                    self._sum = tf.identity(total)
            else:
                with tf.control_dependencies([summands[job.index].enqueue(self._summand)]):
                    self._sum = sums[job.index].dequeue()

    def _build_done_queue(self) -> None:
        """Build the token queue that tells the chief, which computes the sums, that all others have their last sum."""
        with self._on(0):
            done = self._queue("done", [])
            self._send_done, self._await_done = done.enqueue(0.0), done.dequeue_many(self._job.workers - 1).op

    def _queue(self, name: str, shape: list[int]) -> Any:
        return tf1.FIFOQueue(-1, tf.float64, [shape], shared_name=name, name=f"queue/{name}")

    def _on(self, worker: int) -> Any:
        """The context that places ops on a worker; without a cluster, there is only the local device."""
        return tf.device(None if self._alone else worker_device(worker))
