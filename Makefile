# The five commands of the project; CONTRIBUTING.md explains them.
