"""The script that a competent user would write without ullage: torch, Optuna, a grid of levels.

    python benchmarks/plain_grid.py FAMILY runs.csv [--levels 5,7,9] [--trials 8] [--seeds 3]
        [--steps 2000] [--workers 2] [--model nano]

For each level a search by TPE with a median pruner over the same space as ours, then the winner on fresh
seeds, judged once on the test questions. A training stops when it is solved. Levels run side by side, one
thread each. The examples of each split are those of ullage's task, so both measure the same thing; the CSV
is what `ullage fit --runs` reads.
"""

import argparse
import csv
import math
import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import torch
import torch_peer

from ullage.architecture import find as find_model
from ullage.recipe import Recipe
from ullage.space import Range, Space
from ullage.split import Split, questions
from ullage.task import Task, find

SOLVED, EVALUATIONS, QUESTIONS, TEST_QUESTIONS = 0.99, 20, 512, 1024
MOST_EXAMPLES = 65_536  # of a stream; a table has all that it has
STARTUP_TRIALS = 8

Examples = tuple[torch.Tensor, torch.Tensor]


def examples(task: Task, split: Split, count: int) -> Examples:
    """Inputs and targets of one split."""
    asked = questions(task, split, count)
    return tuple(torch.from_numpy(np.array(part)).long() for part in (asked.inputs, asked.targets))  # type: ignore[return-value]


def accuracy(model: torch.nn.Module, asked: Examples) -> float:
    """The share of questions whose whole answer is right."""
    model.eval()
    with torch.no_grad():
        right = (model(asked[0]).argmax(-1) == asked[1]).all(1).float().mean()
    model.train()
    return float(right)


def rate(step: int, warmup: int, steps: int) -> float:
    """A linear warm-up, then half a cosine."""
    return min((step + 1) / max(warmup, 1), 1.0) * (0.5 + 0.5 * math.cos(math.pi * step / steps))


def trained(task: Task, shape: Any, point: dict[str, Any], seed: int, steps: int, trial: Any = None) -> Any:
    """Train one model; the model and its validation accuracy."""
    torch.manual_seed(seed)
    model = torch_peer.Model(shape, task, dropout=point["dropout"])
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.mul_(point["initial_scale"])
    optimiser = torch.optim.AdamW(
        model.parameters(),
        lr=point["learning_rate"],
        betas=torch_peer.BETAS,
        weight_decay=point["weight_decay"],
        fused=True,
    )
    warmup = point["warmup_steps"]
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: rate(step, warmup, steps))
    inputs, targets = examples(task, Split.TRAIN, MOST_EXAMPLES)
    checked = examples(task, Split.VALIDATION, QUESTIONS)
    good, score = 0, 0.0
    for step in range(1, steps + 1):
        chosen = torch.randint(len(inputs), (point["batch_size"],))
        optimiser.zero_grad(set_to_none=True)
        logits = model(inputs[chosen])
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets[chosen].flatten()).backward()
        optimiser.step()
        schedule.step()
        if step % max(steps // EVALUATIONS, 1) and step < steps:
            continue
        score = accuracy(model, checked)
        good = good + 1 if score >= SOLVED else 0
        if good == 2:  # solved
            break
        if trial is not None:
            trial.report(score, step)
            if trial.should_prune():
                raise optuna.TrialPruned
    return model, score


def inside(value: Any, allowed: Range) -> Any:
    """The value, or the nearest of the choices."""
    return min(allowed.choices, key=lambda choice: abs(choice - value)) if allowed.choices else value


def judged(given: tuple[str, int, argparse.Namespace]) -> list[dict[str, Any]]:
    """Search at one level, then the rows of its finals."""
    family, level, chosen = given
    torch.set_num_threads(1)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    task = find(family).at(level)
    recipe = Recipe(find_model(chosen.model, {}), step_limit=chosen.steps, evaluate_every=chosen.steps)
    space = Space.of(chosen.steps, embedding=False)
    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=level, n_startup_trials=STARTUP_TRIALS, multivariate=True),
        pruner=optuna.pruners.MedianPruner(n_warmup_steps=chosen.steps // 4),
    )
    distributions = {name: one.distribution() for name, one in space.dimensions.items()}
    study.enqueue_trial(
        {name: inside(value, space.dimensions[name]) for name, value in space.point_of(recipe)}
    )

    for number in range(chosen.trials):
        trial = study.ask(distributions)
        try:
            study.tell(
                trial, trained(task, recipe.architecture, trial.params, number, chosen.steps, trial)[1]
            )
        except optuna.TrialPruned:
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
    best = study.best_params
    asked = examples(task, Split.TEST, TEST_QUESTIONS)
    scores = []
    for seed in range(chosen.seeds):
        model, _ = trained(task, recipe.architecture, best, 1000 + seed, chosen.steps)
        scores.append(accuracy(model, asked))
    known = {
        "task": family,
        "level": level,
        **recipe.architecture.columns(),
        "demand_bits": task.demand("nominal"),
        "demand_notion": str(task.nominal),
        **{f"demand_{notion}_bits": bits for notion, bits in task.demands().items()},
        "score_floor": task.floor,
        "score_ceiling": task.ceiling,
        "step_limit": chosen.steps,
        "search_trials": chosen.trials,
        "train_examples": 0,
    }
    return [{**known, "seed": seed, "score": score} for seed, score in enumerate(scores)]


def main() -> None:
    """Judge all levels and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("family")
    parser.add_argument("file", type=Path)
    parser.add_argument("--levels", default="")
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--model", default="nano")
    given = parser.parse_args()
    levels = [int(level) for level in given.levels.split(",") if level] or find(given.family).levels
    # The hardest first: a long job that begins last would be waited for.
    jobs = [(given.family, level, given) for level in sorted(levels, reverse=True)]
    with multiprocessing.get_context("spawn").Pool(given.workers) as pool:
        rows = [row for rows in pool.imap_unordered(judged, jobs) for row in rows]
    with given.file.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
