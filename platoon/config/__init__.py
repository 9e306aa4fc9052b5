"""The configuration kit: YAML 1.2, `extends`, overrides, models, and every problem at once. It knows no product key."""
