ARG V=a
FROM a AS b
FROM c
COPY --from=$V /x /y
