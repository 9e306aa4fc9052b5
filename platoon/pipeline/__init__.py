"""From a recipe to the inputs of its runs: what the workflow's rules and `platoon prepare` call."""
