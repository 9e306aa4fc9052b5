FROM a AS b
COPY --from=b /x /y
