"""The `platoon` command: one module a command group, imported when it is called."""
