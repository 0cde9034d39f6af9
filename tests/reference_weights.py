"""Weights and inputs that a test and benchmarks/torch_reference.py draw alike, with NumPy alone.

All are float32 numbers of one RandomState(0), in the order in which they are drawn below: layer by
layer the matrices and vectors of `SHAPES`, then the inputs. A matrix with n rows is standard normal
over √n (over 2√n where it writes to the residual stream), a vector is a quarter of a standard normal
(about one where it is a gain), so that no weight is negligible and the outputs stay of order one.
"""

import numpy as np

WIDTH, HIDDEN, HEADS, LAYERS = 256, 1024, 8, 2  # the preset `paper`: 8 heads · 32 numbers · 32 bits = 8192
SEQUENCES, LENGTH = 25, 8  # 200 vectors come out

SHAPES = {
    "query": (WIDTH, WIDTH),
    "key": (WIDTH, WIDTH),
    "value": (WIDTH, WIDTH),
    "output": (WIDTH, WIDTH),
    "query_bias": (WIDTH,),
    "key_bias": (WIDTH,),
    "value_bias": (WIDTH,),
    "output_bias": (WIDTH,),
    "attention_gain": (WIDTH,),
    "attention_shift": (WIDTH,),
    "rise": (WIDTH, HIDDEN),
    "rise_bias": (HIDDEN,),
    "fall": (HIDDEN, WIDTH),
    "fall_bias": (WIDTH,),
    "feed_gain": (WIDTH,),
    "feed_shift": (WIDTH,),
}


def drawn() -> tuple[list[dict[str, np.ndarray]], np.ndarray]:
    """The weights of each layer, by name, and the inputs."""
    state = np.random.RandomState(0)
    layers = [{name: _weights(state, name, shape) for name, shape in SHAPES.items()} for _ in range(LAYERS)]
    return layers, state.standard_normal((SEQUENCES, LENGTH, WIDTH)).astype(np.float32)


def _weights(state: np.random.RandomState, name: str, shape: tuple[int, ...]) -> np.ndarray:
    numbers = state.standard_normal(shape)
    if len(shape) == 2:
        writes = name in {"output", "fall"}
        return (numbers / np.sqrt(shape[0]) / (2 if writes else 1)).astype(np.float32)
    return (numbers / 4 + name.endswith("gain")).astype(np.float32)
