"""Renderers: `chat_template` is ours, the cookbook's are adapted; `build` picks one by name."""
