"""Runs that are not trained: what comes of a job follows from the job alone, and an executor plays it.

A scripted model learns a level if its capacity, less what its recipe loses, is above the level's demand;
chance is a generator seeded with the job's identity. The executor has any number of lanes, and lets them
come to their checkpoints in an order that is drawn.
"""

import dataclasses
import math

import numpy as np

from ullage import recipe as recipes
from ullage.executor import Ended, Executor, Progress
from ullage.job import Checkpoint, _from_job, failure, task_of
from ullage.record import CurveRow, Phase, Status

BEST_RATE = 1e-3  # the learning rate that loses nothing


@dataclasses.dataclass(frozen=True)
class Script:
    """What a model can do, in log2 bits, and how often a run fails the first time that it is made."""

    log2_capacity: float = 3.2
    log2_noise: float = 0.3
    failing: float = 0.0
    mends: bool = True  # whether a failed run does not fail again

    def play(self, job):
        """Yield checkpoints, each answered with whether the run goes on; return the record and the curve."""
        random = np.random.default_rng(int(job.run_id, 16))
        recipe, task = recipes.from_json(job.recipe), task_of(job.task)
        fails = random.random() < self.failing and not (self.mends and job.attempt > 1)
        lost = abs(math.log2(recipe.learning_rate / BEST_RATE))
        distance = math.log2(task.demand("nominal")) + lost - self.log2_capacity
        distance += self.log2_noise * random.normal()
        # Far below its capacity it learns at once, near it late; above it comes less far the harder it is.
        learns_at = recipe.step_limit * (1.05 + 0.5 * distance)
        by_heart = random.random() < 0.3
        checkpoints, status = [], None
        while status is None:
            step = min(recipe.evaluate_every * (len(checkpoints) + 1), recipe.step_limit)
            skill = 1.0 if step >= learns_at else 0.6 * step / recipe.step_limit * 2 ** -max(distance, 0.0)
            known = 1.0 if by_heart and step >= recipe.step_limit / 8 else skill
            checkpoints.append(_checkpoint(task, step, known, skill))
            goes_on = yield checkpoints[-1]
            status = _status(checkpoints, recipe.step_limit, goes_on)
            if fails and len(checkpoints) == 4:
                return failure(job, Status.FAILED, "scripted"), ()
        return _told(job, recipe, task, checkpoints, status)


def _checkpoint(task, step, known, skill):
    scores = [task.floor + one * (task.ceiling - task.floor) for one in (known, skill)]
    surprise = {"cross_entropy_bits": 1.0 - 0.9 * skill}
    return Checkpoint(step, {"train": {"score": scores[0]}, "validation": {"score": scores[1], **surprise}})


def _status(checkpoints, step_limit, goes_on):
    if _solved_at(checkpoints) is not None or checkpoints[-1].step == step_limit:
        return Status.FINISHED
    return None if goes_on else Status.PRUNED


def _solved_at(checkpoints):
    """The first of two checkpoints in a row without a mistake."""
    right = [one.step for one in checkpoints if one.scores["validation"]["score"] == 1.0]
    return right[0] if len(right) > 1 else None


def _told(job, recipe, task, checkpoints, status):
    last = checkpoints[-1].scores
    record = dataclasses.replace(
        _from_job(job, recipe, task.family),
        status=str(status),
        score=last["validation"]["score"],
        score_floor=task.floor,
        score_ceiling=task.ceiling,
        demand_bits=task.demand("nominal"),
        demand_notion=str(task.nominal),
        **{f"demand_{notion}_bits": bits for notion, bits in task.demands().items()},
        generalisation_gap=(last["train"]["score"] - last["validation"]["score"])
        / (task.ceiling - task.floor),
        train_steps=checkpoints[-1].step,
        steps_to_solve=_solved_at(checkpoints),
    )
    rows = [
        CurveRow(job.run_id, one.step, split, metric, value)
        for one in checkpoints
        for split, found in one.scores.items()
        for metric, value in found.items()
        if split != "train" or job.phase == Phase.SEARCH
    ]
    return record, tuple(rows)


@dataclasses.dataclass
class Scripted(Executor):
    """Plays jobs in so many lanes; `until` is the event before which it is interrupted."""

    script: Script = dataclasses.field(default_factory=Script)
    lanes: int = 1
    seed: int = 0
    until: int | None = None
    jobs: list = dataclasses.field(default_factory=list)

    @classmethod
    def with_workers(cls, workers):
        return cls(lanes=workers)

    def run(self, ask, tell):
        random = np.random.default_rng(self.seed)
        running, events, more = [], 0, True
        while more or running:
            given = ask(self.lanes - len(running)) if more and len(running) < self.lanes else ()
            more = more and given is not None
            self.jobs += given or ()
            running += [[job, self.script.play(job), None] for job in given or ()]
            assert running or not more, "no job was given and none is running"
            if running:
                lane = running[random.integers(len(running))]
                if events == self.until:
                    raise KeyboardInterrupt
                events += 1
                self._next(lane, running, tell)

    @staticmethod
    def _next(lane, running, tell):
        job, play, answer = lane
        try:
            lane[2] = tell(Progress(job, play.send(answer)))
        except StopIteration as end:
            running.remove(lane)
            tell(Ended(job, *end.value))
