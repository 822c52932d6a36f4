"""Binary logistic regression over 33,762,578 sparse features, of which an example has 39."""

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
        most_threads=1,  # 3,900 weights a step: sharing them out costs more than it saves.
        refused=refused,
    )


SIZES = (
    _workload(
        "sparse",
        "logistic regression over sparse features; only the weights a batch touches move",
        {"sends_every_parameter": "it averages every weight of the model: use --size dense, or a parameter server"},
        whole=False,
    ),
    _workload("dense", "the same, but the whole weight vector moves in every step", {}, whole=True),
)
