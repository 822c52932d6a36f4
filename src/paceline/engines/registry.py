"""The engines that are installed, by name: Paceline's own and those of other packages."""

from collections.abc import Mapping

from paceline.engines.base import Engine
from paceline.entry_points import Plugins, load_plugins

GROUP = "paceline.engines"


def engine_plugins() -> Plugins[Engine]:
    """All registered engines, with those that could not be loaded."""
    return load_plugins(GROUP, Engine)


def engines() -> Mapping[str, Engine]:
    """Those that could be loaded; their frameworks may be missing (`Engine.installed`)."""
    return engine_plugins().found
