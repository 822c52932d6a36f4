"""Calls a function when the user's script, or a library that it uses, has imported a module."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

Hook = Callable[[ModuleType], None]


def watch_imports(hooks: Mapping[str, Hook]) -> None:
    """Call each hook with its module, at once if it is imported already, else right after its code has run.

    A hook must not raise.
    """
    for name, hook in hooks.items():
        if name in sys.modules:
            hook(sys.modules[name])
    sys.meta_path.insert(0, _Finder({name: hook for name, hook in hooks.items() if name not in sys.modules}))


class _Finder(MetaPathFinder):
    """Finds the watched modules by asking the other finders, and lets their loaders call the hook afterwards."""

    def __init__(self, hooks: dict[str, Hook]) -> None:
        self._hooks = hooks

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        hook = self._hooks.pop(fullname, None)
        if hook is None:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(fullname, path, target) if finder is not self and find else None
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    _call_after(spec.loader, hook)
                return spec
        return None


def _call_after(loader: Loader, hook: Hook) -> None:
    """Extend the loader itself: a wrapper around it would hide its other methods from libraries that use them."""
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        hook(module)

    loader.exec_module = exec_module  # type: ignore[method-assign]
