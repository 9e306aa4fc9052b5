FROM alpine
COPY --link= a /a
