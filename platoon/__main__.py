"""`python -m platoon`: the same command as `platoon`, with the interpreter that is running."""

from platoon.cli.main import main

if __name__ == "__main__":
    main()
