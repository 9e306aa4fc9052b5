FROM a AS Build
FROM c
COPY --from=BUILD /x /y
COPY --from=0 /x /z
COPY --from=debian:12 /x /w
