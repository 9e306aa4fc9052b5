FROM a
COPY --from=1 /x /y
FROM b
