"""Short explanations of the words that the page uses. docs/glossary.md has the longer ones."""

GLOSSARY = {
    "Update": "One change of the global parameters. In synchronous strategies all workers make one together; in "
    "asynchronous ones every step of a worker is one.",
    "Step": "What a worker does with one batch: get the data, compute a gradient, exchange it.",
    "Batch": "The examples of one step of one worker.",
    "Phase": "A part of a step or of the time between steps: data, pull, compute, push, wait, eval, checkpoint.",
    "Staleness": "Updates by other workers between the pull of the parameters and the push of the gradient.",
    "Barrier": "The point at which workers wait for each other.",
    "Straggler": "A worker that is slower than the others, so that they wait for it.",
    "Chief": "Worker 0 (w0), which also evaluates the model and writes checkpoints.",
    "Parameter server": "A task that stores the parameters, and to which workers push their gradients.",
    "Layout": "Which tasks run on which hosts: one word per host, p is a parameter server, w is a worker.",
    "Background load": "Cores used by programs that do not belong to the run.",
    "Baseline": "The configuration that others are compared with.",
    "Repeat": "Another run of the same configuration. Their spread says whether a difference is significant.",
}
