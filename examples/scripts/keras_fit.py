"""fit of Keras on one worker: paceline launch keras_fit.py"""

import keras
import numpy as np

keras.utils.set_random_seed(1)
inputs = np.random.default_rng(1).normal(size=(1024, 32)).astype("float32")
labels = (inputs.sum(axis=1) > 0).astype("int64")
model = keras.Sequential([keras.layers.Dense(64, activation="relu"), keras.layers.Dense(2)])
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(inputs, labels, batch_size=32, epochs=2, validation_split=0.25, verbose=2)
