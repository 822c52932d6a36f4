"""The demo: trains logistic regression on MNIST on three hosts, with two engines and three strategies."""

import sys

from paceline.cli.main import run_command

if __name__ == "__main__":
    sys.exit(
        run_command(
            [
                "run",
                "logreg",
                "--engine",
                "torch,tensorflow",
                "--strategy",
                "ps-sync,ps-async,allreduce",
                "--layout",
                "cluster2",
                "--batch",
                "100",
                "--stop",
                "loss=0.35",
                "--stop",
                "steps=5000",
            ]
        )
    )
