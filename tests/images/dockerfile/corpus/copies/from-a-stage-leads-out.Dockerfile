FROM alpine AS s
FROM alpine
COPY --from=s ../../etc/x /x
