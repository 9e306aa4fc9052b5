"""One step of training: collect groups, assemble rows, update policies, report. Each part has one result type."""
