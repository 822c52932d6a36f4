"""From which value on something is worth a note or a number to the reader."""

BACKGROUND_LOAD_CORES = 0.3
"""Cores used by other programs during a run. Below this, differences between repeats are larger than its effect."""
SHORT_TRAINING_S = 1.0
"""Seconds of training. In less time there are too few host samples (ten per second) for a mean, and a hiccup of the
machine of a tenth of a second changes the speed by 10 %."""
FEW_UPDATES = 10
"""Updates. With fewer, the speed depends on whether a long update was among them."""
ENOUGH_REPEATS = 3
"""Repeats per configuration. Two values say almost nothing about their spread: an interval from two repeats that differ
by 50 % reaches from a third to three times the ratio."""
WIDEST_INTERVAL = 10.0
"""Upper end over lower end of a confidence interval. A wider one only says that the repeats vary too much."""
UNEVEN_STEPS = 2.0
"""How many times the steps of the slowest worker the fastest one makes."""
SMALLEST_TRAFFIC_MB_S = 0.01
"""MB/s. Less is control traffic and is shown as none."""
SMALLEST_PHASE_SHARE = 0.005
"""Share of the time. A smaller phase would be shown as 0 %."""
