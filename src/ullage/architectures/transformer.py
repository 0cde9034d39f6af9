"""The Transformer whose capacity is measured: few layers, every part a knob, easy to read.

    inputs ─ embed + position ─▶ [ norm ─ attention ─ + ─ norm ─ feed-forward ─ + ] × layers ─ read

Glossary of shapes: batch; length (positions that go in); reads (positions that are read out);
width = d_model; span = heads · d_head. Inside, a stream is (width, batch, length).

Five things make it fast without changing what it computes. The last layer asks queries, and runs its
feed-forward part, only where the model is read. Every product with a weight matrix is one
two-dimensional product over (batch · positions), which XLA's CPU backend runs at full speed where it
does not do so for a product with three axes. The width is the first axis and the keys come before the
queries, so that norms and softmaxes add up whole rows at a time. What is small is turned and nothing
else: weights, not streams, and never a pattern of attention (`kernels.times`). And a norm's gain and
shift are multiplied into the matrices behind it, which are smaller than the stream (`kernels.absorbed`).

>>> Transformer(d_model=64, heads=2).head_width
32
"""

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ullage import kernels, keys
from ullage.architecture import Architecture
from ullage.errors import BadInput
from ullage.knobs import knob
from ullage.task import Interface, Tokens

LONGEST = 4096  # rows of the table of learned positions
WAVELENGTHS = 10_000.0  # the slowest sinusoid of Vaswani et al. 2017 (arXiv 1706.03762)

_COMPUTE = {"bf16": jnp.bfloat16, "f16": jnp.float16, "f32": jnp.float32, "f64": jnp.float64}
_BITS = {"bf16": 16, "f16": 16, "f32": 32, "f64": 64}

Layer = dict[str, Array]


@dataclasses.dataclass(frozen=True)
class Transformer(Architecture):
    """A pre-norm Transformer; the defaults are the baseline of 2 layers and 8192 bits of bandwidth."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "nano": {"d_model": 32, "heads": 4, "d_ff": 128},
        "small": {"d_model": 64, "heads": 4, "d_ff": 256},
        "medium": {"d_model": 128, "heads": 8, "d_ff": 512},
        "paper": {"d_model": 256, "heads": 8, "d_ff": 1024},
    }

    layers: int = knob(2, "blocks of attention and feed-forward", low=1, high=64)
    heads: int = knob(8, "attention heads of one layer", low=1, high=1024)
    d_head: int = knob(0, "width of one head, 0 for d_model / heads", low=0, high=4096)
    d_model: int = knob(256, "width of the residual stream", low=2, high=65536)
    d_ff: int = knob(1024, "hidden width of the feed-forward part, 0 for attention only", low=0, high=262144)
    positional: str = knob("sinusoidal", "how positions are told", choices=("none", "sinusoidal", "learned"))
    norm: str = knob("pre", "layer norm before each part, or none", choices=("pre", "none"))
    final_norm: bool = knob(False, "a layer norm before the read-out")
    activation: str = knob("gelu", "GELU in its exact form, or ReLU", choices=("gelu", "relu"))
    attention: str = knob("bidirectional", "what a position may look at", choices=("bidirectional", "causal"))
    precision: str = knob("f32", "numbers that the model computes with", choices=tuple(_BITS))

    def validate(self) -> None:
        if self.d_head == 0 and self.d_model % self.heads:
            raise BadInput(
                f"d_model={self.d_model} is not divisible by heads={self.heads}; "
                "choose heads that divide it, or give d_head"
            )
        if self.positional == "sinusoidal" and self.d_model % 2:
            raise BadInput(f"d_model={self.d_model} is odd; sinusoidal positions need an even d_model")

    @property
    def head_width(self) -> int:
        """The width of one head."""
        return self.d_head or self.d_model // self.heads

    @property
    def precision_bits(self) -> int:
        return _BITS[self.precision]

    @property
    def uses_x64(self) -> bool:
        return self.precision == "f64"

    @property
    def bandwidth_bits(self) -> float:
        return float(self.heads * self.head_width * self.precision_bits)

    @property
    def compute_type(self) -> Any:
        """The type of every product, softmax and norm."""
        return _COMPUTE[self.precision]

    @property
    def storage_type(self) -> Any:
        """The type in which the optimiser keeps the weights: never fewer than 32 bits."""
        return jnp.float64 if self.uses_x64 else jnp.float32

    def columns(self) -> dict[str, Any]:
        return {
            "layers": self.layers,
            "heads": self.heads,
            "d_head": self.head_width,
            "d_model": self.d_model,
            "d_ff": self.d_ff,
            "precision_bits": self.precision_bits,
        }

    # ── parameters ────────────────────────────────────────────────────────────────────────────

    def init(self, key: PRNGKeyArray, interface: Interface, scale: Array | float = 1.0) -> dict[str, Any]:
        width, span = self.d_model, self.heads * self.head_width
        # Outputs of the residual branches start smaller, so that the stream's size does not depend on depth.
        branch = 1.0 / math.sqrt(2 * self.layers)

        def matrix(purpose: str, index: int, shape: tuple[int, int], gain: float = 1.0) -> Array:
            drawn = jax.random.normal(keys.derive(key, purpose, index), shape, self.storage_type)
            return drawn * jnp.asarray(scale, self.storage_type) * (gain / math.sqrt(shape[0]))

        def layer(index: int) -> Layer:
            attention = {
                "query": matrix("query", index, (width, span)),
                "key": matrix("key", index, (width, span)),
                "value": matrix("value", index, (width, span)),
                "output": matrix("output", index, (span, width), branch),
                "query_bias": self._zeros(span),
                "key_bias": self._zeros(span),
                "value_bias": self._zeros(span),
                "output_bias": self._zeros(width),
                **self._norm_parameters("attention"),
            }
            if not self.d_ff:
                return attention
            return attention | {
                "rise": matrix("rise", index, (width, self.d_ff)),
                "rise_bias": self._zeros(self.d_ff),
                "fall": matrix("fall", index, (self.d_ff, width), branch),
                "fall_bias": self._zeros(width),
                **self._norm_parameters("feed"),
            }

        # The gain undoes the division by the root of the rows: an embedding looks one row up.
        tokens = isinstance(interface.inputs, Tokens)
        rows = interface.inputs.vocabulary if isinstance(interface.inputs, Tokens) else interface.inputs.width
        parameters = {
            "embed": matrix("embed", 0, (rows, width), math.sqrt(rows) if tokens else 1.0),
            "layers": [layer(index) for index in range(self.layers)],
            "read": matrix("read", 0, (width, interface.readout.width)),
            "read_bias": self._zeros(interface.readout.width),
        }
        if self.positional == "learned":
            parameters["position"] = matrix("position", 0, (LONGEST, width), math.sqrt(LONGEST))
        if self.final_norm:
            parameters |= self._norm_parameters("final")
        return parameters

    def _zeros(self, size: int) -> Array:
        return jnp.zeros(size, self.storage_type)

    def _norm_parameters(self, name: str) -> dict[str, Array]:
        if self.norm == "none" and name != "final":
            return {}
        return {
            f"{name}_gain": jnp.ones(self.d_model, self.storage_type),
            f"{name}_shift": self._zeros(self.d_model),
        }

    # ── forward ───────────────────────────────────────────────────────────────────────────────

    def apply(
        self,
        parameters: dict[str, Any],
        inputs: Array,
        interface: Interface,
        dropout: Array | float = 0.0,
        key: PRNGKeyArray | None = None,
    ) -> Array:
        parameters = self._in_compute_type(parameters)
        stream = self.embed(parameters, inputs)
        drop = functools.partial(_drop, rate=dropout, key=key)
        stream = drop(stream, "embed")
        causal = interface.causal or self.attention == "causal"
        last = self.layers - 1
        for index, layer in enumerate(parameters["layers"]):
            reads = interface.reads if index == last else None
            stream, _ = self._block(layer, stream, reads, causal, functools.partial(drop, index=index))
        if self.final_norm:
            parameters = kernels.absorbed(parameters, "final", ("read",))
            stream = kernels.standardised(stream)
        return kernels.width_last(kernels.product(stream, parameters["read"], parameters["read_bias"]))

    def observe(self, parameters: dict[str, Any], inputs: Array, interface: Interface) -> dict[str, Array]:
        """Attention patterns and residual streams, at all positions, read or not.

        `attention` is (batch, layers, heads, length, length), `residual` (batch, layers + 1, length, width).
        """
        parameters = self._in_compute_type(parameters)
        streams, patterns = [self.embed(parameters, inputs)], []
        causal = interface.causal or self.attention == "causal"
        for layer in parameters["layers"]:
            stream, pattern = self._block(layer, streams[-1], None, causal, _keep)
            streams.append(stream)
            patterns.append(pattern)
        return {
            "attention": jnp.stack(patterns).transpose(2, 0, 1, 4, 3),
            "residual": jnp.stack(streams).transpose(2, 0, 3, 1),
        }

    def blocks(self, parameters: dict[str, Any], stream: Float[Array, "batch length width"]) -> Array:
        """The layers alone, without embedding, positions and read-out."""
        parameters = self._in_compute_type(parameters)
        stream = kernels.width_first(stream)
        for layer in parameters["layers"]:
            stream, _ = self._block(layer, stream, None, self.attention == "causal", _keep)
        return kernels.width_last(stream)

    def embed(self, parameters: dict[str, Any], inputs: Array) -> Float[Array, "width batch length"]:
        """Tokens or vectors as points of the residual stream, with their positions."""
        table = parameters["embed"]
        if jnp.issubdtype(inputs.dtype, jnp.integer):
            stream = kernels.look_up(table, inputs)
        else:
            stream = kernels.product(kernels.width_first(inputs.astype(self.compute_type)), table)
        length = inputs.shape[1]
        if self.positional == "sinusoidal":
            stream = stream + jnp.asarray(sinusoids(length, self.d_model).T, self.compute_type)[:, None]
        if self.positional == "learned":
            stream = stream + parameters["position"][:length].T[:, None]
        return stream

    def _in_compute_type(self, parameters: dict[str, Any]) -> dict[str, Any]:
        return jax.tree.map(lambda leaf: leaf.astype(self.compute_type), parameters)

    def _block(
        self, layer: Layer, stream: Array, reads: tuple[int, ...] | None, causal: bool, drop: Any
    ) -> tuple[Array, Array]:
        """One layer; with `reads`, only these positions of its result."""
        layer = kernels.absorbed(
            kernels.absorbed(layer, "attention", ("query", "key", "value")), "feed", ("rise",)
        )
        normed = self._maybe_norm(stream)
        if reads is not None and reads != tuple(range(stream.shape[2])):
            asking, stream = kernels.take(normed, reads), kernels.take(stream, reads)
        else:
            asking, reads = normed, tuple(range(stream.shape[2]))
        mixed, pattern = self._attend(layer, asking, normed, reads if causal else None)
        stream = stream + drop(kernels.product(mixed, layer["output"], layer["output_bias"]), "attention")
        if self.d_ff:
            normed = self._maybe_norm(stream)
            hidden = self._activate(kernels.product(normed, layer["rise"], layer["rise_bias"]))
            stream = stream + drop(kernels.product(hidden, layer["fall"], layer["fall_bias"]), "feed")
        return stream, pattern

    def _attend(
        self, layer: Layer, asking: Array, asked: Array, causal_reads: tuple[int, ...] | None
    ) -> tuple[Array, Array]:
        query = self._heads(kernels.product(asking, layer["query"], layer["query_bias"]))
        key = self._heads(kernels.product(asked, layer["key"], layer["key_bias"])).swapaxes(2, 3)
        value = self._heads(kernels.product(asked, layer["value"], layer["value_bias"]))
        scores = kernels.times(key, query * (1 / math.sqrt(self.head_width)))
        if causal_reads is not None:
            allowed = np.arange(asked.shape[2])[:, None] <= np.array(causal_reads)[None, :]
            scores = jnp.where(allowed[None, None], scores, jnp.finfo(scores.dtype).min)
        # The softmax divides the mixture, which is smaller than the pattern.
        largest = jax.lax.stop_gradient(scores.max(2, keepdims=True))
        unscaled = jnp.exp(scores - largest)
        total = unscaled.sum(2, keepdims=True)
        mixed = kernels.times(value, unscaled) / total
        return mixed.swapaxes(1, 2).reshape(-1, *asking.shape[1:]), unscaled / total

    def _heads(self, x: Float[Array, "span batch length"]) -> Float[Array, "heads batch d_head length"]:
        return x.reshape(self.heads, self.head_width, *x.shape[1:]).swapaxes(1, 2)

    def _maybe_norm(self, stream: Array) -> Array:
        return stream if self.norm == "none" else kernels.standardised(stream)

    def _activate(self, hidden: Array) -> Array:
        if self.activation == "relu":
            return jax.nn.relu(hidden)
        if self.precision_bits < 32:
            return jax.nn.gelu(hidden, approximate=False)
        # By erf and not, as JAX does, by erfc, which takes 1.6 times as long on a CPU; what the sum with one
        # rounds away matters in 16 bits only.
        return 0.5 * hidden * (1 + jax.lax.erf(hidden * math.sqrt(0.5)))

    def forward_flops(self, interface: Interface) -> float:
        length, reads, width = interface.length, len(interface.reads), self.d_model
        span = self.heads * self.head_width
        total = 0.0 if isinstance(interface.inputs, Tokens) else 2.0 * length * interface.inputs.width * width
        for index in range(self.layers):
            asking = reads if index == self.layers - 1 else length
            total += 2.0 * asking * 2 * width * span + 2.0 * length * 2 * width * span
            total += 2.0 * 2 * asking * length * span + 2.0 * asking * 2 * width * self.d_ff
        return total + 2.0 * reads * width * interface.readout.width


def sinusoids(length: int, width: int) -> np.ndarray:
    """Sine and cosine of each position at wavelengths in geometric progression.

    >>> sinusoids(2, 4).shape
    (2, 4)
    """
    rates = WAVELENGTHS ** (-np.arange(0, width, 2) / width)
    angles = np.arange(length)[:, None] * rates[None]
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, width)


def _drop(x: Array, purpose: str, rate: Array | float, key: PRNGKeyArray | None, index: int = 0) -> Array:
    if key is None:
        return x
    kept = jax.random.bernoulli(keys.derive(key, purpose, index), 1 - jnp.asarray(rate, jnp.float32), x.shape)
    return jnp.where(kept, x / jnp.asarray(1 - rate, x.dtype), jnp.zeros((), x.dtype))


def _keep(x: Array, purpose: str) -> Array:
    del purpose
    return x
