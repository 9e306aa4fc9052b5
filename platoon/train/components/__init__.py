"""Parts of a run that a configuration names: task samplers and credit estimators."""
