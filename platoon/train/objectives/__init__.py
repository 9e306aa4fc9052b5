"""Losses: which rows one can leave out, and what a step learns from the logprobs that came back."""
