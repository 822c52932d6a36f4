"""The pages of `paceline ui`: a server for this machine that shows runs, also while they are made."""
