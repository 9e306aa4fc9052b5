FROM a
RUN --mount=type=$T,target=/x y
