"""An engine and a kind of hosts for Paceline, as small as they can be."""
