"""In which order tasks are drawn: pure functions from a position of the endless order to a task."""
