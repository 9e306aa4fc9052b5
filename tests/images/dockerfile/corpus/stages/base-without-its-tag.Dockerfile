ARG V=
FROM alpine:$V
