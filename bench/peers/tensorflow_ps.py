"""A hand-written TensorFlow script to compare with: distributed softmax regression, feed_dict, a monitored session.

This is one process of it, a server or a worker; bench.peers.launch starts them all. A worker prints lines of the form
`time global_step`.
"""

import argparse
import time

import numpy as np
import tensorflow as tf

from paceline.data.mnist import load

tf1 = tf.compat.v1
tf1.disable_eager_execution()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--job", choices=["ps", "worker"], required=True)
    parser.add_argument("--index", type=int, default=0)
    parser.add_argument("--ps", required=True)
    parser.add_argument("--workers", required=True)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--sync", action="store_true")
    options = parser.parse_args()

    workers = options.workers.split(",")
    cluster = tf1.train.ClusterSpec({"ps": [options.ps], "worker": workers})
    # Without device filters a worker waits for all others at the start and at the end.
    filters = ["/job:ps", f"/job:worker/task:{options.index}"] if options.job == "worker" else []
    config = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1, device_filters=filters)
    server = tf1.train.Server(cluster, job_name=options.job, task_index=options.index, config=config)
    if options.job == "ps":
        server.join()

    data = load()
    is_chief = options.index == 0
    with tf1.device(
        tf1.train.replica_device_setter(worker_device=f"/job:worker/task:{options.index}", cluster=cluster)
    ):
        x = tf1.placeholder(tf.float32, [None, 784])
        y = tf1.placeholder(tf.int64, [None])
        weight = tf1.get_variable("weight", [784, 10])
        bias = tf1.get_variable("bias", [10], initializer=tf1.zeros_initializer())
        logits = tf.matmul(x, weight) + bias
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        global_step = tf1.train.get_or_create_global_step()
        optimizer = tf1.train.GradientDescentOptimizer(0.1)
        hooks = [tf1.train.StopAtStepHook(last_step=options.steps)]
        if options.sync:
            optimizer = tf1.train.SyncReplicasOptimizer(
                optimizer, replicas_to_aggregate=len(workers), total_num_replicas=len(workers)
            )
            hooks.append(optimizer.make_session_run_hook(is_chief))
        train = optimizer.minimize(loss, global_step=global_step)

    random, runs = np.random.default_rng(options.index), 0
    with tf1.train.MonitoredTrainingSession(
        master=server.target, is_chief=is_chief, config=config, hooks=hooks
    ) as session:
        while not session.should_stop():
            chosen = random.integers(0, len(data.train_x), options.batch)
            images = data.train_x[chosen].astype(np.float32) / 255
            _, _, step = session.run([train, loss, global_step], {x: images, y: data.train_y[chosen]})
            if runs % 25 == 0:
                print(f"{time.time():.4f} {step}", flush=True)
            runs += 1


if __name__ == "__main__":
    main()
