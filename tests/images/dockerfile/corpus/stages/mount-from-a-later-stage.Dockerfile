FROM a
RUN --mount=from=later,target=/x true
FROM b AS later
