"""Training rows as columns: the block, how calls merge into it, and the kernels on it. Values only; no training SDK."""
