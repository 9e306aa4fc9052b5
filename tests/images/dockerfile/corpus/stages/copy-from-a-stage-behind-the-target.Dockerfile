FROM a AS t
COPY --from=later /x /y
FROM b AS later
