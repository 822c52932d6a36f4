"""`python -m paceline` is the command line."""

from paceline.cli.main import main

if __name__ == "__main__":
    main()
