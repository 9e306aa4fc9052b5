FROM a AS b
FROM c
COPY --from=b /x /y
FROM d AS b
