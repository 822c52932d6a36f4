"""Sparse logistic regression on your own LibSVM file, such as Criteo's, which is streamed and never loaded as a whole.

    CRITEO=/data/criteo.train.svm.gz CRITEO_TEST=/data/criteo.test.svm \\
        paceline run examples/criteo.py --strategy ps-async --layout cluster2 --stop steps=100000
"""

import os
from pathlib import Path

from paceline import Model, Workload
from paceline.data.libsvm import LibsvmExamples
from paceline.layers import SparseLinear

FEATURES = int(os.environ.get("CRITEO_FEATURES", "1000000"))
NONZEROS = 39


def clicks() -> LibsvmExamples:
    paths = (Path(os.environ[name]) for name in ("CRITEO", "CRITEO_TEST"))
    return LibsvmExamples(*paths, features=FEATURES, nonzeros=NONZEROS)


WORKLOAD = Workload(
    name="criteo",
    summary="logistic regression on clicks in LibSVM files",
    model=Model((NONZEROS,), (SparseLinear(FEATURES, NONZEROS),), loss="logistic"),
    data=clicks,
    train_examples=int(os.environ.get("CRITEO_EXAMPLES", "45840617")),
    lr=0.5,
)
