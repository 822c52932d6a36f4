"""An engine, a kind of hosts and a strategy for Paceline, as small as they can be."""
