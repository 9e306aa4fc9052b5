"""The lifecycle of a start and the trainers that run in it."""
