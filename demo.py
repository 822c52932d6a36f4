"""The demo: logistic regression on MNIST on three hosts, sync and async, TensorFlow and PyTorch."""

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
