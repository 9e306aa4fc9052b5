"""The model gateway: admits, renders, samples, parses and records every model call of every agent."""
