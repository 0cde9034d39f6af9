"""Scores: hand-computed numbers, and that a model which generates is fed what it said itself."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_tasks
from small_tasks import TINY

from ullage import keys
from ullage.architecture import Architecture
from ullage.evaluate import CHUNK, METRICS, Answers, answers, macro_f1, scores, skill
from ullage.knobs import knob
from ullage.readout import Softmax
from ullage.split import Split, questions
from ullage.task import Example, Notion, Task, Tokens
from ullage.task import find as find_task


def said(predictions, targets, graded=None):
    predictions, targets = np.asarray(predictions), np.asarray(targets)
    graded = np.ones(targets.shape[:2], bool) if graded is None else np.asarray(graded, bool)
    return Answers(predictions, targets, graded, None, None, None)


# ── graded metrics by hand ────────────────────────────────────────────────────────────────────────


def test_a_whole_answer_is_right_when_all_that_is_graded_is():
    given = said([[1, 2], [1, 9], [9, 2]], [[1, 2], [1, 2], [1, 2]], [[1, 1], [1, 0], [1, 1]])

    assert METRICS["answers"](given) == pytest.approx(2 / 3)
    assert METRICS["tokens"](given) == pytest.approx(4 / 5)


def test_macro_f1_is_the_mean_over_the_classes_that_occur():
    """Of class 0: precision 2/3, recall 1; of class 1: 1 and 1/2; of class 2, said once and wrong: 0."""
    given = said([[0], [0], [0], [1], [2]], [[0], [0], [1], [1], [0]])
    by_class = [2 * 2 / (3 + 3), 2 * 1 / (1 + 2), 0.0]

    assert macro_f1(given, 10) == pytest.approx(np.mean(by_class))


def test_macro_f1_tells_a_constant_answer_from_a_good_one():
    targets = [[0]] * 9 + [[1]]

    assert METRICS["answers"](said([[0]] * 10, targets)) == 0.9
    assert macro_f1(said([[0]] * 10, targets), 2) == pytest.approx((18 / 19 + 0) / 2)


def test_r_squared_is_one_for_the_truth_nought_for_the_mean_and_less_for_worse():
    targets = np.array([[[1.0]], [[2.0]], [[6.0]]])
    values = [METRICS["r_squared"](said(given, targets)) for given in (targets, 0 * targets + 3, 0 * targets)]

    assert values == pytest.approx([1.0, 0.0, 1 - 41 / 14])


def test_information_is_one_for_the_truth_and_nought_for_the_mean():
    targets = np.array([[[1.0, 0.0]], [[0.5, 0.5]]])
    mean = np.broadcast_to([[0.75, 0.25]], targets.shape)

    assert METRICS["information"](said(targets, targets)) == pytest.approx(1.0)
    assert METRICS["information"](said(mean, targets)) == pytest.approx(0.0)
    assert METRICS["information"](said(targets[::-1], targets)) < 0


def test_skill_is_linear_and_never_clipped():
    task = find_task("parity").at(5)

    assert [skill(task, score) for score in (0.4, 0.5, 0.75, 1.0)] == pytest.approx([-0.2, 0.0, 0.5, 1.0])


# ── a whole model against NumPy ───────────────────────────────────────────────────────────────────


def parameters_of(task):
    drawn = TINY.init(keys.root(0), task.interface)
    return jax.tree.map(lambda leaf: leaf + 0.1, drawn)


def by_hand(task, parameters, asked):
    """The metrics of a softmax task with one chunk and no padding, in NumPy and float64."""
    outputs = TINY.apply(parameters, jnp.asarray(asked.inputs), task.interface)
    logits = np.asarray(outputs, np.float64)[asked.graded_mask]
    targets = asked.targets[asked.graded_mask]
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    shares = np.exp(logs)
    cross_entropy = -np.log2(shares[np.arange(len(targets)), targets]).mean()
    return {
        "cross_entropy_bits": cross_entropy,
        "perplexity": 2**cross_entropy,
        "entropy_bits": -(shares * np.log2(shares)).sum(-1).mean(),
        "confidence": shares.max(-1).mean(),
        "token_accuracy": (logits.argmax(-1) == targets).mean(),
    }


@pytest.mark.parametrize("count", [5, CHUNK, CHUNK + 44])
def test_scores_are_those_of_numpy_however_many_questions_there_are(count):
    task = toy_tasks.Masked(level=5)
    asked = questions(task, Split.TEST, count)
    parameters = parameters_of(task)

    found = scores(task, TINY, parameters, asked)
    expected = by_hand(task, parameters, asked)

    assert found["total"] == count
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-4)
    assert found["score"] == found["token_accuracy"]
    assert found["correct"] == pytest.approx(found["answer_accuracy"] * count)


def test_padding_gives_no_answers_and_changes_none():
    task = toy_tasks.Masked(level=5)
    asked = questions(task, Split.TEST, CHUNK + 44)
    parameters = parameters_of(task)
    part = Example(*(leaf[:17] for leaf in asked))

    all_of_them, few = (answers(task, TINY, parameters, some) for some in (asked, part))

    assert all_of_them.predictions.shape == asked.targets.shape
    np.testing.assert_array_equal(all_of_them.predictions[:17], few.predictions)
    np.testing.assert_allclose(all_of_them.loss[:17], few.loss, rtol=1e-5)


@pytest.mark.parametrize(
    ("owner", "level", "left_out"),
    [
        (toy_tasks.Sums, 2, {"macro_f1", "correct", "cross_entropy_bits", "entropy_bits", "answer_accuracy"}),
        (toy_tasks.Clock, 11, {"cross_entropy_bits", "perplexity", "entropy_bits", "confidence"}),
        (toy_tasks.Frequencies, 4, {"macro_f1", "correct", "answer_accuracy"}),
    ],
)
def test_metrics_that_a_readout_does_not_have_are_left_out(owner, level, left_out):
    task = owner(level=level)

    found = scores(task, TINY, parameters_of(task), questions(task, Split.TEST, 20))

    assert left_out & found.keys() == set()
    assert all(map(math.isfinite, found.values()))
    assert {"score", "total"} <= found.keys()


def test_a_model_of_no_numbers_has_a_score_and_no_cross_entropy():
    task = toy_tasks.Masked(level=5)
    lost = jax.tree.map(lambda leaf: jnp.full_like(leaf, jnp.nan), parameters_of(task))

    found = scores(task, TINY, lost, questions(task, Split.TEST, 20))

    assert 0 <= found["score"] <= 1
    assert "cross_entropy_bits" not in found


def test_a_certain_and_wrong_answer_is_infinitely_perplexing_and_left_out():
    task = toy_tasks.First(level=4)
    parameters = parameters_of(task)
    certain = parameters | {"read_bias": jnp.array([1e6, 0, 0, 0])}

    found = scores(task, TINY, certain, questions(task, Split.TEST, 20))

    assert found["cross_entropy_bits"] > 1000
    assert "perplexity" not in found
    assert found["entropy_bits"] == 0.0


# ── greedy decoding ───────────────────────────────────────────────────────────────────────────────

SYMBOLS = 7


@dataclasses.dataclass(frozen=True)
class Count(Task):
    """Counting upwards from the first symbol, one symbol after the other; the level is how many."""

    level: int = knob(4, "symbols that are said", low=2, high=64)
    nominal = Notion.ANSWER
    decode = "autoregressive"

    levels = (4,)
    inputs = Tokens(SYMBOLS)
    readout = Softmax(SYMBOLS)
    floor = 1 / SYMBOLS

    @property
    def length(self):
        return self.level

    def sample(self, key, progress):
        del progress
        first = jax.random.randint(key, (), 0, SYMBOLS, dtype=jnp.int32)
        counted = (first + jnp.arange(self.level + 1, dtype=jnp.int32)) % SYMBOLS
        everywhere = jnp.ones(self.level, bool)
        return Example(counted[:-1], counted[1:], everywhere, everywhere)

    def solve(self, inputs):
        return (inputs[0] + 1 + np.arange(self.level)) % SYMBOLS

    def demands(self):
        return {"answer": math.log2(SYMBOLS)}


@dataclasses.dataclass(frozen=True)
class Stepper(Architecture):
    """No model at all: what it says is the symbol it reads, plus a step."""

    step: int = knob(1, "what is added", low=0, high=6)

    def init(self, key, interface, scale=1.0):
        return {}

    def apply(self, parameters, inputs, interface, dropout=0.0, key=None):
        spoken = (inputs + self.step) % SYMBOLS
        return jax.nn.one_hot(spoken[:, np.array(interface.reads)], SYMBOLS)

    def observe(self, parameters, inputs, interface):
        return {}

    def columns(self):
        return {}

    def forward_flops(self, interface):
        return 0.0

    bandwidth_bits = 0.0
    precision_bits = 32
    uses_x64 = False


def counting(count=5):
    first = np.arange(count, dtype=np.int32)[:, None] % SYMBOLS
    counted = (first + np.arange(5, dtype=np.int32)[None]) % SYMBOLS
    everywhere = np.ones((count, 4), bool)
    return Example(counted[:, :-1], counted[:, 1:], everywhere, everywhere)


def test_a_model_that_generates_reads_what_it_said():
    """A step of two, fed with itself, goes 2, 4, 6, 8; fed with the targets it would go 2, 3, 4, 5."""
    asked = counting()
    first = asked.inputs[:, :1]

    predictions = answers(Count(), Stepper(step=2), {}, asked).predictions

    np.testing.assert_array_equal(predictions, (first + np.array([[2, 4, 6, 8]])) % SYMBOLS)


def test_inputs_that_hold_the_targets_would_be_told_from_generated_ones():
    asked = counting()
    forced = Stepper(step=2).apply({}, jnp.asarray(asked.inputs), Count().interface).argmax(-1)

    np.testing.assert_array_equal(forced, (asked.inputs + 2) % SYMBOLS)
    assert (forced != answers(Count(), Stepper(step=2), {}, asked).predictions).any()


def test_the_targets_in_the_inputs_do_not_change_what_is_generated():
    asked = counting()
    hidden = asked._replace(inputs=np.where(np.arange(4)[None] == 0, asked.inputs, 6).astype(np.int32))

    shown, unseen = (answers(Count(), Stepper(step=1), {}, some).predictions for some in (asked, hidden))

    np.testing.assert_array_equal(shown, unseen)
    np.testing.assert_array_equal(shown, asked.targets)


def test_a_good_generator_scores_one_and_one_error_spoils_the_rest():
    good, bad = (scores(Count(), Stepper(step=step), {}, counting(300)) for step in (1, 2))

    assert (good["score"], good["correct"], good["total"]) == (1.0, 300.0, 300.0)
    # Off by 1, 2, 3 and 4 of seven symbols: nothing is right, not even by chance.
    assert (bad["score"], bad["token_accuracy"]) == (0.0, 0.0)


def test_what_is_not_generated_is_read_as_it_stands():
    """Only the last two symbols are generated: the loss mask says so."""
    asked = counting()
    late = np.broadcast_to(np.array([[False, False, True, True]]), asked.loss_mask.shape)

    predictions = answers(Count(), Stepper(step=2), {}, asked._replace(loss_mask=late)).predictions

    # At the third place the third input is read; what is said there is read at the fourth.
    first = asked.inputs[:, :1]
    np.testing.assert_array_equal(predictions, (first + np.array([[2, 3, 4, 6]])) % SYMBOLS)


def test_reads_that_start_late_generate_what_follows_them():
    task = toy_tasks.Scratchpad(level=5)
    asked = questions(task, Split.TEST, 16)
    blind = asked._replace(inputs=np.where(np.arange(9)[None] < 5, asked.inputs, 0).astype(np.int32))
    parameters = parameters_of(task)

    shown, unseen = (answers(task, TINY, parameters, some).predictions for some in (asked, blind))

    np.testing.assert_array_equal(shown, unseen)
