"""paceline workloads: list the built-in workloads."""


def workloads() -> int:
    """List the built-in workloads with models and data sets."""
    from rich.table import Table

    from paceline.cli.console import output
    from paceline.workloads.registry import WORKLOADS

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in ("workload", "description", "parameters", "data", "examples", "learning rate", "optimizer"):
        table.add_column(
            column, justify="left" if column in ("workload", "description", "data", "optimizer") else "right"
        )
    for sizes in WORKLOADS.values():
        for workload in sizes.values():
            model = workload.model
            details = model and (
                f"{model.size:,}",
                workload.dataset,
                f"{workload.train_examples:,}",
                f"{workload.lr:g}",
                workload.optimizer or (f"momentum {workload.momentum:g}" if workload.momentum else "sgd"),
            )
            table.add_row(workload.title, workload.summary, *(details or ()))
    output().print(table)
    return 0
