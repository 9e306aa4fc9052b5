"""What a run writes so that a later start goes on exactly where it stopped."""
