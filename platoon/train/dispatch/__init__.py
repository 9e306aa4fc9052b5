"""Which task runs next and when: draws and their life, permits, the horizon, and the source a trainer takes settled groups from."""
