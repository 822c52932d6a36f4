"""L-BFGS over all training examples: a driver iterates, the workers hold the data."""

from paceline.strategies.descriptor import Strategy

DESCRIPTOR = Strategy(
    name="lbfgs",
    summary="L-BFGS; an update is an iteration over all training examples",
    update="One update is one iteration of L-BFGS: it uses the gradient of all training examples, not of one batch.",
    waiting="Every worker waits in each iteration for its tasks, and then until the driver has the gradients of all.",
    checkpoint="A checkpoint holds the driver's parameters; the memory of L-BFGS begins anew after a restart.",
    synchronous=True,
    waits="every-step",
    has_servers=True,
    one_server=True,
    server_is="driver",
    sends_every_parameter=True,
    linear_models_only=True,
    driver_bytes_per_parameter=24 * 8,  # Ten pairs of vectors of doubles are its memory.
    own_optimizer=True,
    whole_data=True,
    phases=("pull", "compute", "push", "wait"),
    barrier_phase="wait",
    waits_for_task=True,
    others_take_over=True,
    workers_evaluate=False,
    eval_every=10,
)
