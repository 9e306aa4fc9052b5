FROM a
RUN --mount=from=,target=/x y
