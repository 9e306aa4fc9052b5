"""The embedded Tinker-compatible service: a tiny transformer that the real SDK trains and samples over HTTP, on a CPU, offline.

Others call `platoon.local.launcher`; everything else here runs in the child process it starts. Importing this package loads
neither torch nor the SDK.
"""
