FROM a
COPY --from=Later /x /y
FROM b AS later
