FROM a AS first
FROM b
RUN --mount=from=first,target=/x true
RUN --mount=from=debian:12,target=/x true
