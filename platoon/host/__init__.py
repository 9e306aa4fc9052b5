"""What the package knows of the machine it runs on: scratch, processes, locks, commands, the terminal."""
