"""What a user would otherwise train: torch's own encoder, in the ways of running it that torch offers.

    eager       as it is written
    compile     through torch.compile
    bf16        eager, with its products in bfloat16 (autocast)

The model is ours in torch's words: tokens with sinusoidal positions, pre-norm blocks with the exact GELU,
no norm at the end, a linear read-out at the positions that are read, AdamW in one fused call. Torch is a
peer of the benchmarks and no dependency: `pip install torch==2.13.0` into an environment of its own.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ullage.architectures.transformer import Transformer, sinusoids
from ullage.recipe import Recipe
from ullage.task import Task, Tokens

MODES = ("eager", "compile", "bf16")
BETAS = (0.9, 0.98)  # as in our trainer


class Model(torch.nn.Module):
    """An encoder that reads tokens and is read at some positions."""

    def __init__(self, model: Transformer, task: Task, dropout: float = 0.0) -> None:
        super().__init__()
        assert isinstance(task.inputs, Tokens)
        self.reads = list(task.reads)
        self.embed = torch.nn.Embedding(task.inputs.vocabulary, model.d_model)
        positions = sinusoids(task.length, model.d_model).astype(np.float32)
        self.register_buffer("positions", torch.from_numpy(positions))
        layer = torch.nn.TransformerEncoderLayer(
            model.d_model,
            model.heads,
            model.d_ff,
            dropout=dropout,
            activation="gelu",  # torch's "gelu" is the exact one
            batch_first=True,
            norm_first=True,
        )
        self.encoder = torch.nn.TransformerEncoder(layer, model.layers, enable_nested_tensor=False)
        self.read = torch.nn.Linear(model.d_model, task.readout.width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits at the positions that are read."""
        stream = self.encoder(self.embed(tokens) + self.positions)
        return self.read(stream[:, self.reads])


def made(task: Task, recipe: Recipe, mode: str) -> tuple[Callable[..., torch.Tensor], torch.optim.Optimizer]:
    """A model, compiled where the mode says so, and its optimiser."""
    assert isinstance(recipe.architecture, Transformer)
    model = Model(recipe.architecture, task)
    optimiser = torch.optim.AdamW(
        model.parameters(),
        lr=recipe.learning_rate,
        betas=BETAS,
        weight_decay=recipe.weight_decay,
        fused=True,
    )
    called: Any = torch.compile(model) if mode == "compile" else model
    return called, optimiser


def stepper(
    task: Task, recipe: Recipe, mode: str, inputs: np.ndarray, targets: np.ndarray
) -> Callable[[int], None]:
    """So many steps, each on the next of some batches that were drawn before."""
    torch.set_num_threads(1)
    model, optimiser = made(task, recipe, mode)
    narrow = torch.autocast("cpu", torch.bfloat16) if mode == "bf16" else contextlib.nullcontext()
    asked, answers = torch.from_numpy(inputs).long(), torch.from_numpy(targets).long()

    def run(steps: int) -> None:
        for index in range(steps):
            place = index % len(asked)
            optimiser.zero_grad(set_to_none=True)
            with narrow:
                logits = model(asked[place])
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), answers[place].flatten())
            loss.backward()
            optimiser.step()

    return run


def products(side: int) -> Callable[[int], None]:
    """So many square matrix products in 32 bits."""
    torch.set_num_threads(1)
    left, right, out = (torch.randn(side, side) for _ in range(3))

    def run(times: int) -> None:
        for _ in range(times):
            torch.mm(left, right, out=out)

    return run
