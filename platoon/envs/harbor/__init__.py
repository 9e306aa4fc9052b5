"""Harbor datasets: the task format, sources, locks and hold-outs."""
