"""What became of tasks: verdicts of groups, fates of draws, and the statistics kept per task."""
