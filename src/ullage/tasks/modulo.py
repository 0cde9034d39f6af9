"""The remainder of a number that is written in digits."""

import dataclasses
import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ullage.errors import BadInput
from ullage.knobs import knob
from ullage.readout import Softmax
from ullage.task import Example, Notion, Task, Tokens

SERIES = {
    "primes": (5, 11, 23, 41, 79, 163, 317, 641),
    "fives": (5, 10, 20, 40, 80, 160, 320, 640),
}
TABLE_ROWS = 2**20  # numbers up to which the whole range is kept as a table
NUMBERS_PER_ANSWER = 64  # so that about fifty of every answer are left to train on
NUMBER_LIMIT = 2**31  # numbers are 32-bit words


@dataclasses.dataclass(frozen=True)
class Modulo(Task):
    """x mod N for x uniform below M = base**digits, N being the level.

    The digits are the tokens, the answer is read behind the last one, and it is a class of N.

    A modulus that shares factors with the base can be an easy one: where N divides base**j, only the
    last j digits matter. The series `primes` shares none with the default base; the series `fives`,
    5·2^k, is there to show the difference (with base 10 it asks for 1, 1, 2, 3 … digits).

    Demands, with M at least 64 N, so that all N remainders occur and are all but equally frequent:
        answer   log2 N
        context  log2 N: when all digits have gone by, the N remainders must be told apart, and
                 before that no more than N, for what is still to come acts on the remainder alone
        input    log2 base for every digit whose place value is not a multiple of N; log2 M as a rule

    The floor is the share of the most frequent remainder, 0: ceil(M / N) of M numbers.

    >>> task = Modulo(level=11, base=10, digits=3)
    >>> task.solve(np.array([1, 2, 3]))  # 123 = 11·11 + 2
    array([2], dtype=int32)
    >>> round(task.floor, 3), round(task.demands()["answer"], 3)
    (0.091, 3.459)
    """

    level: int = knob(5, "modulus N", low=2, high=2**24)
    base: int = knob(216, "base of the digits", low=2, high=4096)
    digits: int = knob(2, "digits of a number", low=2, high=30)
    order: str = knob("most", "which digit comes first, by significance", choices=("most", "least"))
    series: str = knob("primes", "which moduli the default levels are", choices=tuple(SERIES))

    nominal: ClassVar[Notion] = Notion.ANSWER
    collection: ClassVar[str] = "classic"

    def validate(self) -> None:
        if self.numbers >= NUMBER_LIMIT:
            raise BadInput(
                f"modulo: base={self.base}, digits={self.digits} make {self.numbers} numbers, which is more "
                f"than {NUMBER_LIMIT - 1}; choose a smaller base or fewer digits"
            )
        if self.numbers < NUMBERS_PER_ANSWER * self.level:
            raise BadInput(
                f"modulo: level={self.level} needs at least {NUMBERS_PER_ANSWER * self.level} numbers and "
                f"base={self.base}, digits={self.digits} make {self.numbers}; choose a larger base, more "
                f"digits or a level of at most {self.numbers // NUMBERS_PER_ANSWER}"
            )

    @property
    def numbers(self) -> int:
        """How many numbers there are: M."""
        return self.base**self.digits

    @property
    def levels(self) -> tuple[int, ...]:
        return tuple(level for level in SERIES[self.series] if NUMBERS_PER_ANSWER * level <= self.numbers)

    @property
    def is_kin(self) -> bool:
        """A prime that does not divide the base, or one of the fives."""
        if self.series == "fives":
            return self.level in SERIES["fives"]
        return math.gcd(self.level, self.base) == 1 and all(
            self.level % divisor for divisor in range(2, math.isqrt(self.level) + 1)
        )

    @property
    def inputs(self) -> Tokens:
        return Tokens(self.base)

    @property
    def length(self) -> int:
        return self.digits

    @property
    def readout(self) -> Softmax:
        return Softmax(self.level)

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.digits - 1,)

    def table(self) -> np.ndarray | None:
        return np.arange(self.numbers, dtype=np.int32) if self.numbers <= TABLE_ROWS else None

    def example(self, row: Int[Array, ""], key: PRNGKeyArray) -> Example:
        del key
        place_values = np.array([self.base**place for place in range(self.digits)], dtype=np.int32)
        if self.order == "most":
            place_values = place_values[::-1]
        read = jnp.ones(1, bool)
        return Example(row // place_values % self.base, (row % self.level)[None], read, read)

    def sample(self, key: PRNGKeyArray, progress: Float[Array, ""]) -> Example:
        del progress
        return self.example(jax.random.randint(key, (), 0, self.numbers, dtype=jnp.int32), key)

    @property
    def floor(self) -> float:
        return math.ceil(self.numbers / self.level) / self.numbers

    def solve(self, inputs: np.ndarray) -> np.ndarray:
        remainder = 0
        for digit in inputs if self.order == "most" else reversed(inputs):
            remainder = (remainder * self.base + int(digit)) % self.level
        return np.array([remainder], dtype=np.int32)

    def demands(self) -> dict[str, float]:
        answer = math.log2(self.level)
        deciding = sum(self.base**place % self.level != 0 for place in range(self.digits))
        return {"answer": answer, "context": answer, "input": deciding * math.log2(self.base)}
