"""Members are found, never listed.

For every contract `ullage/x.py` with the class `X` there is a folder `ullage/xs/`; each file in it is
one member and holds exactly one subclass of `X`. The file name is the member's name.

>>> names("task")[:2]
['copy', 'induction']
"""

import hashlib
import importlib
import pkgutil
import sys
import types
from pathlib import Path

from ullage.errors import BadInput, listed

USER_PACKAGE = "ullage_user_files"


def names(kind: str) -> list[str]:
    """The names of all members of a kind, sorted; imports none of them."""
    package = importlib.import_module(f"ullage.{_folder(kind)}")
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__))


def member(kind: str, name: str) -> type:
    """The class of one member; an unknown name is an error that lists the known ones."""
    if name not in names(kind):
        raise BadInput(f"there is no {kind} {name!r}; choose one of {listed(names(kind))}")
    return _only_member(importlib.import_module(f"ullage.{_folder(kind)}.{name}"), kind, name)


def load_file(path: Path, kind: str) -> type:
    """The class that a user's own file defines."""
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read ({error}); give the path of a Python file") from None
    return load_source(path.stem, source, kind)


def load_source(name: str, source: str, kind: str) -> type:
    """The class that the text of a user's file defines; the same text gives the same class."""
    if name in names(kind):
        raise BadInput(f"{name}.py has the name of a built-in {kind}; rename the file")
    if not name.isidentifier():
        raise BadInput(f"{name}.py is not a usable name; rename the file to letters, digits and _")
    module_name = f"{USER_PACKAGE}.h{source_hash(source)}.{name}"
    if module_name not in sys.modules:
        sys.modules[module_name] = _execute(module_name, source, f"{name}.py")
    return _only_member(sys.modules[module_name], kind, f"{name}.py")


def source_hash(source: str) -> str:
    """Identifies the text of a user's file: editing the file makes its old runs stale."""
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def source_of(owner: type) -> str | None:
    """The text of the user's file that defines `owner`, or None for a member of ours."""
    return getattr(sys.modules[owner.__module__], "__ullage_source__", None)


def name_of(owner: type) -> str:
    """The member's name: the name of its file."""
    return owner.__module__.rpartition(".")[2]


def _folder(kind: str) -> str:
    return kind + "s"


def _execute(module_name: str, source: str, file_name: str) -> types.ModuleType:
    module = types.ModuleType(module_name)
    module.__dict__["__ullage_source__"] = source
    sys.modules[module_name] = module  # dataclasses look their own module up while it is being run
    try:
        exec(compile(source, file_name, "exec"), module.__dict__)  # a user's file is code to run
    except Exception as error:
        del sys.modules[module_name]
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        raise BadInput(f"{file_name} does not import ({what}); mend the file and try again") from None
    return module


def _only_member(module: types.ModuleType, kind: str, name: str) -> type:
    contract = getattr(importlib.import_module(f"ullage.{kind}"), kind.capitalize())
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, contract) and value.__module__ == module.__name__
    ]
    if len(found) != 1:
        which = listed(one.__name__ for one in found)
        raise BadInput(
            f"{name} defines {len(found)} subclasses of {contract.__name__} ({which}); define exactly one"
        )
    return found[0]
