"""One group: runs the members of a draw, says what they are worth, and hands on rows with their credit."""
