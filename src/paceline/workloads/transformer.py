"""A transformer that predicts the next character of a text."""

from paceline.data.text import EXAMPLES, VOCABULARY
from paceline.workloads.layers import Dense, Embedding, Layer, LayerNorm, TransformerBlock
from paceline.workloads.model import Model
from paceline.workloads.workload import Workload


def _workload(size: str, *, context: int, width: int, heads: int, blocks: int, dataset: str) -> Workload:
    layers: tuple[Layer, ...] = (
        Embedding(VOCABULARY, width),
        *[TransformerBlock(heads)] * blocks,
        LayerNorm(),
        Dense(VOCABULARY),
    )
    return Workload(
        name="transformer",
        size=size,
        summary=f"transformer for characters: {blocks} blocks of width {width}, {context} characters, adamw",
        model=Model((context,), layers),
        dataset=dataset,
        train_examples=EXAMPLES,
        optimizer="adamw",
        lr=0.001,
        metrics=("perplexity",),
    )


SIZES = (
    _workload("small", context=64, width=64, heads=4, blocks=2, dataset="text"),
    _workload("large", context=256, width=256, heads=8, blocks=6, dataset="text-256"),
)
