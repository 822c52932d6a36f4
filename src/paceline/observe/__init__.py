"""Users' own training scripts: started by `paceline launch`, and observed without changes.

`step`, `phase` and `metric` are for loops that cannot be seen from outside.
"""

from paceline.observe.api import metric, phase, step

__all__ = ["metric", "phase", "step"]
