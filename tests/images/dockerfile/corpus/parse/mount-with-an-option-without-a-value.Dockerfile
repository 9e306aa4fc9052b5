FROM a
RUN --mount=type=cache,target y
