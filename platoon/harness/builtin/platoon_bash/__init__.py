"""The files of the `platoon-bash` harness; `platoon_bash.py` is copied into sandboxes and never imported."""
