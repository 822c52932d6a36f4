"""The parameter server of `paceline bench-collectives`: shard and transport of ps-async, with vectors of many sizes."""

import numpy as np

from paceline.paramserver.buckets import BUCKET_BYTES
from paceline.paramserver.server import handle_requests, max_message_bytes
from paceline.paramserver.shard import AsyncShard, ShardPlan
from paceline.paramserver.transfer import ServerTransfer
from paceline.paramserver.transports.zmq_transport import ZmqServerTransport
from paceline.plan.roles import WORKER, task_names
from paceline.spec.optimizer import Optimizer
from paceline.train.collectives import Order
from paceline.train.context import Outcome, TaskContext

Buckets = dict[int, list[tuple[int, slice]]]
"""By size in bytes: the number of each bucket in the shard, and its values."""


def buckets_of(sizes: tuple[int, ...]) -> Buckets:
    """The buckets of vectors of these sizes, all of which begin with the same value."""
    bucket_values = BUCKET_BYTES // 4
    buckets: Buckets = {}
    number = 0
    for size in sizes:
        starts = range(0, size // 4, bucket_values)
        buckets[size] = [
            (number + i, slice(start, min(start + bucket_values, size // 4))) for i, start in enumerate(starts)
        ]
        number += len(starts)
    return buckets


def serve(context: TaskContext) -> Outcome:
    """Serve vectors of all sizes until all workers are done."""
    job = context.job
    order = Order.of(job)
    buckets = [part for parts in buckets_of(order.sizes).values() for _, part in parts]
    messages = max(len(parts) for parts in buckets_of(order.sizes).values())
    transport = ZmqServerTransport(job, messages=messages, max_message_bytes=max_message_bytes(BUCKET_BYTES))
    try:
        context.rendezvous.exchange_addresses({"parameters": transport.address})
        transfer = ServerTransfer(np.zeros(max(order.sizes) // 4, np.float32), zero_copy=False)
        plan = ShardPlan(buckets=buckets, optimizer=Optimizer(lr=0.0), workers=task_names(WORKER, job.workers))
        shard = AsyncShard(transfer, plan)
        context.rendezvous.start_together()
        handle_requests(transport, shard, transfer)
    finally:
        transport.close()
    return Outcome()
