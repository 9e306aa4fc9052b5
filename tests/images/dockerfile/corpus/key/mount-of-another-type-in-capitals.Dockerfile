FROM a
RUN --mount=type=Tmpfs,target=/x y
