"""paceline workloads: what can be trained."""


def workloads() -> int:
    """List the workloads."""
    from rich.table import Table

    from paceline.cli.console import output
    from paceline.workloads.registry import WORKLOADS

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in ("workload", "what", "parameters", "training examples", "data", "learning rate"):
        table.add_column(column)
    for name, workload in WORKLOADS.items():
        size = sum(parameter.size for parameter in workload.model.parameters())
        table.add_row(
            name, workload.summary, f"{size:,}", f"{workload.train_examples:,}", workload.dataset, f"{workload.lr:g}"
        )
    output().print(table)
    return 0
