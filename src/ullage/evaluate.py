"""Scores of a trained model on a set of questions.

The graded metric of the task is called `score`; beside it stand accuracy a token and a whole answer,
cross-entropy, perplexity, macro-F1, entropy and confidence of the output. Metrics that a read-out does
not have (the entropy of real numbers, say) are left out, never made up.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ullage import together
from ullage.architecture import Architecture, Parameters
from ullage.bits import NATS_PER_BIT
from ullage.split import blank_generated
from ullage.task import Example, Interface, Task

CHUNK = 256  # questions that are answered at a time: one compiled shape for all splits


@dataclasses.dataclass(frozen=True)
class Answers:
    """What a model said, as NumPy arrays over (questions, reads)."""

    predictions: np.ndarray
    targets: np.ndarray
    graded: np.ndarray
    # nats of the right answer, entropy in nats, largest probability; None without a distribution
    loss: np.ndarray | None
    entropy: np.ndarray | None
    confidence: np.ndarray | None


def answers(task: Task, architecture: Architecture, parameters: Parameters, examples: Example) -> Answers:
    """Ask all questions; autoregressive tasks are decoded greedily."""
    fixed = architecture, task.interface, task.decode
    said = [
        jax.tree.map(np.asarray, together.call(_ask, fixed, (parameters, chunk)))
        for chunk in _chunks(examples)
    ]
    count = len(examples.targets)
    joined = {name: np.concatenate([part[name] for part in said])[:count] for name in said[0]}
    return Answers(
        targets=np.asarray(examples.targets),
        graded=np.asarray(examples.graded_mask, bool),
        **{name: joined.get(name) for name in ("predictions", "loss", "entropy", "confidence")},  # type: ignore[arg-type]
    )


def _chunks(examples: Example) -> list[Example]:
    count = len(examples.targets)
    padded = -count % CHUNK

    def cut(leaf: Any, start: int) -> Any:
        full = np.pad(leaf, [(0, padded)] + [(0, 0)] * (leaf.ndim - 1))
        return jnp.asarray(full[start : start + CHUNK])

    return [jax.tree.map(partial(cut, start=start), examples) for start in range(0, count + padded, CHUNK)]


@partial(jax.jit, static_argnums=(0, 1, 2))
def _ask(
    architecture: Architecture, interface: Interface, decode: str, parameters: Parameters, chunk: Example
) -> dict[str, Any]:
    outputs = architecture.apply(parameters, chunk.inputs, interface)
    predictions = interface.readout.decode(outputs)
    if decode == "autoregressive":
        predictions = _decode_greedily(architecture, interface, parameters, chunk)
    said = {"predictions": predictions}
    logs = interface.readout.log_probabilities(outputs)
    if logs is not None:
        probabilities = jnp.exp(logs)
        # 0 · log 0 is 0, also where the logarithm has underflowed to minus infinity.
        terms = jnp.where(probabilities > 0, probabilities * logs, jnp.zeros((), logs.dtype))
        said["loss"] = interface.readout.loss(outputs, chunk.targets)
        said["entropy"] = -terms.sum(-1)
        said["confidence"] = probabilities.max(-1)
    return said


def _decode_greedily(
    architecture: Architecture, interface: Interface, parameters: Parameters, chunk: Example
) -> jax.Array:
    """Each answer is written into the next input wherever the loss mask says it is generated."""
    blank = partial(blank_generated, reads=interface.reads)
    inputs = jax.vmap(blank)(chunk.inputs, chunk.loss_mask)
    places = jnp.asarray(interface.reads, jnp.int32)

    def write(read: Any, inputs: jax.Array) -> jax.Array:
        said = interface.readout.decode(architecture.apply(parameters, inputs, interface))[:, read]
        place = jnp.minimum(places[read] + 1, interface.length - 1)
        generated = chunk.loss_mask[:, read] & (places[read] + 1 < interface.length)
        return inputs.at[:, place].set(jnp.where(generated, said.astype(inputs.dtype), inputs[:, place]))

    inputs = jax.lax.fori_loop(0, len(interface.reads), write, inputs)
    return interface.readout.decode(architecture.apply(parameters, inputs, interface))


# ── graded metrics: one number of all answers ─────────────────────────────────────────────────────


def right_answers(said: Answers) -> np.ndarray:
    """For each question, whether every graded position is right."""
    return ((said.predictions == said.targets) | ~said.graded).all(axis=1)


def answer_accuracy(said: Answers) -> float:
    """The share of questions whose whole graded answer is right."""
    return float(right_answers(said).mean())


def token_accuracy(said: Answers) -> float:
    """The share of graded positions that are right."""
    return float((said.predictions == said.targets)[said.graded].mean())


def r_squared(said: Answers) -> float:
    """1 − squared error / variance of the targets; 0 for the best constant, below 0 for worse."""
    targets, predictions = said.targets[said.graded], said.predictions[said.graded]
    spread = ((targets - targets.mean(axis=0)) ** 2).sum()
    return float(1 - ((targets - predictions) ** 2).sum() / spread)


def information(said: Answers) -> float:
    """The share of what the inputs tell of the target distributions: 1 − divergence / that of their mean."""
    targets, predictions = said.targets[said.graded], said.predictions[said.graded]
    mean = targets.mean(axis=0, keepdims=True)
    return float(
        1 - _divergence(targets, predictions) / _divergence(targets, np.broadcast_to(mean, targets.shape))
    )


def _divergence(truth: np.ndarray, prediction: np.ndarray) -> float:
    tiny = np.finfo(np.float64).tiny
    ratio = np.log(np.maximum(truth, tiny)) - np.log(np.maximum(prediction.astype(np.float64), tiny))
    return float(np.where(truth > 0, truth * ratio, 0.0).sum(axis=-1).mean())


METRICS: Mapping[str, Callable[[Answers], float]] = {
    "answers": answer_accuracy,
    "tokens": token_accuracy,
    "r_squared": r_squared,
    "information": information,
}


def macro_f1(said: Answers, classes: int) -> float:
    """The mean F1 over the classes that occur among the targets or the answers."""
    targets, predictions = said.targets[said.graded], said.predictions[said.graded]
    right = np.bincount(targets[targets == predictions], minlength=classes)
    asked = np.bincount(targets, minlength=classes)
    given = np.bincount(predictions, minlength=classes)
    occurring = (asked + given) > 0
    return float((2 * right[occurring] / (asked + given)[occurring]).mean())


def scores(
    task: Task, architecture: Architecture, parameters: Parameters, examples: Example
) -> dict[str, float]:
    """All metrics that make sense for this task, by name; `score` is the graded one.

    A metric whose value is not finite is left out: a model that diverged has no cross-entropy.
    """
    said = answers(task, architecture, parameters, examples)
    found = {"score": METRICS[task.metric](said), "total": float(len(said.targets))}
    classes = task.readout.classes
    if classes is not None and not task.readout.target_shape:
        found |= {
            "answer_accuracy": answer_accuracy(said),
            "token_accuracy": token_accuracy(said),
            "correct": float(right_answers(said).sum()),
            "macro_f1": macro_f1(said, classes),
        }
    if said.loss is not None and said.entropy is not None and said.confidence is not None:
        cross_entropy = float(said.loss[said.graded].astype(np.float64).mean()) / NATS_PER_BIT
        found |= {
            "cross_entropy_bits": cross_entropy,
            "perplexity": 2.0**cross_entropy if cross_entropy < 1000 else math.inf,
            "entropy_bits": float(said.entropy[said.graded].astype(np.float64).mean()) / NATS_PER_BIT,
            "confidence": float(said.confidence[said.graded].astype(np.float64).mean()),
        }
    return {name: value for name, value in found.items() if math.isfinite(value)}


def skill(task: Task, score: float) -> float:
    """(score − floor) / (ceiling − floor), never clipped."""
    return (score - task.floor) / (task.ceiling - task.floor)
