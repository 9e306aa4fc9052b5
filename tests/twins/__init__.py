"""Slow, obvious Python twins of the compiled core. They use nothing of it; tests compare the two."""
