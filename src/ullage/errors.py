"""The one error that a user can cause.

>>> raise BadInput("level 3 is below 5; choose a level of at least 5")
Traceback (most recent call last):
    ...
ullage.errors.BadInput: level 3 is below 5; choose a level of at least 5
"""


class BadInput(ValueError):
    """A request that cannot be met: one sentence with the value, what is allowed and what to do.

    The command line prints the sentence and ends with exit code 2; everything else that is
    raised is a defect of ours.
    """


def listed(names: object) -> str:
    """Join names for a sentence, sorted, so that an error can say what is allowed.

    >>> listed({"parity", "copy"})
    'copy, parity'
    """
    return ", ".join(sorted(str(name) for name in names)) or "none"  # type: ignore[attr-defined]
