"""The report: one self-contained page drawn from receipts, and its figures as files."""
