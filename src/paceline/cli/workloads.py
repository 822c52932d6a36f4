"""paceline workloads: what can be trained."""


def workloads() -> int:
    """List the workloads."""
    from rich.table import Table

    from paceline.cli.console import output
    from paceline.workloads.registry import WORKLOADS

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in ("workload", "what", "parameters", "data", "examples", "rate", "momentum"):
        table.add_column(column, justify="left" if column in ("workload", "what", "data") else "right")
    for sizes in WORKLOADS.values():
        for workload in sizes.values():
            model = workload.model
            trained = model and (
                f"{model.size:,}",
                workload.dataset,
                f"{workload.train_examples:,}",
                f"{workload.lr:g}",
                f"{workload.momentum:g}" if workload.momentum else "",
            )
            table.add_row(workload.title, workload.summary, *(trained or ()))
    output().print(table)
    return 0
