FROM alpine
COPY a.tgz /a/
