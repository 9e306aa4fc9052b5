FROM a
RUN --mount=typ=cache,target=/x y
