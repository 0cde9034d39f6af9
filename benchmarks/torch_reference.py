"""Makes tests/data/torch_reference.npz: what torch's encoder gives for weights that the tests draw too.

The outputs are those of torch.nn.TransformerEncoder in float64, rounded once to float32: they depend on
no number of threads and no order of sums. Torch is needed here and nowhere else, so give it an
environment of its own:

    python -m venv torch-environment
    torch-environment/bin/pip install torch==2.13.0 numpy
    torch-environment/bin/python benchmarks/torch_reference.py
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path.insert(0, str(TESTS))

import reference_weights as weights  # noqa: E402 - found only now


def encoder() -> Any:
    """Torch's pre-norm encoder without a norm at its end."""
    import torch

    layer = torch.nn.TransformerEncoderLayer(
        d_model=weights.WIDTH,
        nhead=weights.HEADS,
        dim_feedforward=weights.HIDDEN,
        dropout=0.0,
        activation="gelu",  # torch's "gelu" is the exact one
        layer_norm_eps=1e-5,
        batch_first=True,
        norm_first=True,
    )
    return torch.nn.TransformerEncoder(layer, weights.LAYERS, norm=None, enable_nested_tensor=False).double()


def named_as_in_torch(layer: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """One layer's weights under torch's names; torch keeps a matrix by its outputs."""
    return {
        "self_attn.in_proj_weight": np.concatenate([layer[name].T for name in ("query", "key", "value")]),
        "self_attn.in_proj_bias": np.concatenate(
            [layer[f"{name}_bias"] for name in ("query", "key", "value")]
        ),
        "self_attn.out_proj.weight": layer["output"].T,
        "self_attn.out_proj.bias": layer["output_bias"],
        "linear1.weight": layer["rise"].T,
        "linear1.bias": layer["rise_bias"],
        "linear2.weight": layer["fall"].T,
        "linear2.bias": layer["fall_bias"],
        "norm1.weight": layer["attention_gain"],
        "norm1.bias": layer["attention_shift"],
        "norm2.weight": layer["feed_gain"],
        "norm2.bias": layer["feed_shift"],
    }


def outputs() -> np.ndarray:
    """What torch gives: (sequences, length, width) in float32."""
    import torch

    layers, inputs = weights.drawn()
    model = encoder()
    named = {
        f"layers.{index}.{name}": torch.from_numpy(np.ascontiguousarray(value, np.float64))
        for index, layer in enumerate(layers)
        for name, value in named_as_in_torch(layer).items()
    }
    model.load_state_dict(named, strict=True)
    with torch.no_grad():
        return model.eval()(torch.from_numpy(inputs).double()).numpy().astype(np.float32)


def main() -> None:
    """Write the file."""
    made = outputs()
    path = TESTS / "data" / "torch_reference.npz"
    path.parent.mkdir(exist_ok=True)
    np.savez_compressed(path, outputs=made)
    print(f"{path.name}: {made.shape}, standard deviation {made.std():.2f}, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
