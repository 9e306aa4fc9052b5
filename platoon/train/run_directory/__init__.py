"""The directory of a run: its paths, who holds it, which identity it has, and where it came from."""
