"""Measures how much of a small Transformer's information budget a task fills.

Every verb of the command line is a function here (`ullage.measure`, `ullage.status`, …), and every figure is
in `ullage.plots`. They are imported when they are first used: `import ullage` alone is quick and loads no
numerical library.
"""

import importlib
import pkgutil
from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "plots":
        return importlib.import_module("ullage.plots")
    # Not `from ullage import verbs`, which would ask this very function for it.
    verbs = importlib.import_module("ullage.verbs")
    if name in {module.name for module in pkgutil.iter_modules(verbs.__path__)}:
        return getattr(importlib.import_module(f"ullage.verbs.{name}"), name)
    raise AttributeError(f"module 'ullage' has no attribute {name!r}")
