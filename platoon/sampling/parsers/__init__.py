"""Readers of the tool calls and the reasoning that models write, one format a module."""
