"""Models of the run configurations: the keys this version acts on, their defaults, and the rules between them."""
