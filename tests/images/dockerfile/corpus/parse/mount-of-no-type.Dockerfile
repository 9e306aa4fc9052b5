FROM a
RUN --mount=type=zz,target=/x y
