"""Which task runs next and when: draws and their life, permits, the horizon, and the source of settled groups a trainer takes from."""
