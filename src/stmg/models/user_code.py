"""The user's own networks, named as `file.py:function` or `package.module:function`."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import sys
import sysconfig
import zlib
from pathlib import Path
from types import ModuleType

from stmg.errors import ModelError


def call_user_function(name: str) -> object:
    """Call the function named by `file.py:function` or `package.module:function`, and return its result."""
    source, _, function = name.rpartition(":")
    try:
        module = _import(source)
    except ModuleNotFoundError as error:
        raise ModelError(f"{name}: {error}") from error
    except SyntaxError as error:
        raise ModelError(f"{error.filename}, line {error.lineno}: {error.msg}") from None
    except UnicodeDecodeError:
        raise ModelError(f"{source} is not a Python file: it is not UTF-8 text") from None
    if not callable(getattr(module, function, None)):
        own = {
            name: each for name, each in vars(module).items() if getattr(each, "__module__", None) == module.__name__
        }
        names = [name for name, each in own.items() if not name.startswith("_") and callable(each)]
        raise ModelError(f"{source} has no function {function!r}; it has: {', '.join(names) or 'nothing to call'}")
    build = getattr(module, function)
    try:
        inspect.signature(build).bind()
    except TypeError as error:
        raise ModelError(f"{name} is called without arguments: {error}; give them defaults") from None
    except ValueError:  # functions not written in Python have no signature
        pass
    return build()


def list_functions(path: Path) -> str:
    """The functions and classes of a file, as they are named; the file is read and not run."""
    try:
        body = ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError) as error:
        raise ModelError(f"{path} is no Python file: {error}") from None
    names = [each.name for each in body if isinstance(each, ast.FunctionDef | ast.ClassDef)]
    return ", ".join(f"{path}:{name}" for name in names if not name.startswith("_")) or "it has none"


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _import(source: str) -> ModuleType:
    path = Path(source)
    if path.suffix != ".py":
        if _is_installed(source):
            return importlib.import_module(source)
        if not Path(f"{source}.py").is_file():
            _find_neighbors(str(Path.cwd()))  # a package in the current folder
            return importlib.import_module(source)
        path = Path(f"{source}.py")
    if not path.is_file():
        raise ModelError(f"{path} does not exist")
    path = path.resolve()
    stat = path.stat()
    # Use a unique name: a user's queue.py must not replace the standard library's. A changed file is another module.
    name = f"stmg_user_{path.stem}_{zlib.crc32(f'{path} {stat.st_mtime_ns} {stat.st_size}'.encode()):08x}"
    if name in sys.modules:
        return sys.modules[name]
    _find_neighbors(str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _find_neighbors(folder: str) -> None:
    """Allow imports of modules beside a file: before installed packages, but after the standard library."""
    if folder not in sys.path:
        library = [at for at, path in enumerate(sys.path) if path and Path(path) == Path(sysconfig.get_path("stdlib"))]
        sys.path.insert(max(library, default=-1) + 1, folder)
