"""One file, one plot; the file name is the plot's name.

`ullage.plots.NAME` is the plot itself: `NAME.data(material)` gives rows, `NAME(rows)` a figure.
"""

import sys
import types
from typing import Any


class _Plots(types.ModuleType):
    """The package, whose names are plots and not the files that hold them."""

    def __getattr__(self, name: str) -> Any:
        from ullage import registry

        if name not in registry.names("plot"):
            raise AttributeError(f"there is no plot {name!r}; choose one of {registry.names('plot')}")
        return registry.member("plot", name)()

    def __setattr__(self, name: str, value: Any) -> None:
        """Importing a file would bind it to the name that belongs to its plot."""
        if not isinstance(value, types.ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Plots
