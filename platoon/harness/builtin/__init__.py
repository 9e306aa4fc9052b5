"""The harnesses that come with the package."""
