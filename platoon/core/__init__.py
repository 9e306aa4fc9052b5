"""The values every part speaks: tasks, outcomes, tools, trajectories, and the protocols of services and sessions."""
