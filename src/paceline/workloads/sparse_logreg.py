"""Binary logistic regression over 33,762,578 sparse features, of which each example has 39."""

from paceline.data.sparse import FEATURES, NONZEROS, TRAINING
from paceline.strategies.descriptor import Fact
from paceline.workloads.layers import SparseLinear
from paceline.workloads.model import Model
from paceline.workloads.workload import Workload


def _workload(size: str, summary: str, refused: dict[Fact, str], *, whole: bool) -> Workload:
    return Workload(
        name="sparse-logreg",
        size=size,
        summary=summary,
        model=Model((NONZEROS,), (SparseLinear(FEATURES, NONZEROS, whole),), loss="logistic"),
        dataset="sparse",
        train_examples=TRAINING,
        lr=0.5,
        most_threads=1,  # A step uses 3,900 weights: splitting them over threads costs more than it saves.
        refused=refused,
    )


SIZES = (
    _workload(
        "sparse",
        "logistic regression over sparse features; only the weights that a batch uses are transferred",
        {"sends_every_parameter": "it averages every weight of the model: use --size dense, or a parameter server"},
        whole=False,
    ),
    _workload("dense", "the same, but the whole weight vector is transferred in every step", {}, whole=True),
)
