FROM alpine
COPY "a b" /x
