"""Episodes: one task played by one agent, graded, traced and stored."""
