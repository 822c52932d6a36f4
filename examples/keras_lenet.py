"""Your own workload as a Keras model on a built-in data set, for engine tensorflow.

    paceline run examples/keras_lenet.py --strategy allreduce --layout single,cluster,cluster2 \\
        --checkpoint-every 100
"""

from typing import Any

from paceline import Workload


def lenet() -> Any:
    # Imported here, since only the tasks need it, not the controller.
    import keras
    from keras import layers

    return keras.Sequential(
        [
            keras.Input((784,)),
            layers.Reshape((28, 28, 1)),
            *(layers.Conv2D(6, 5, activation="relu"), layers.AveragePooling2D(2)),
            *(layers.Conv2D(16, 5, activation="relu"), layers.AveragePooling2D(2)),
            layers.Flatten(),
            *(layers.Dense(120, activation="relu"), layers.Dense(84, activation="relu"), layers.Dense(10)),
        ]
    )


WORKLOAD = Workload(
    name="keras-lenet",
    summary="LeNet as a Keras model",
    tensorflow=lenet,
    dataset="mnist",
    train_examples=60_000,
    lr=0.1,
)
