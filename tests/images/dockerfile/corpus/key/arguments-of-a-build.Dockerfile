ARG V=1
FROM alpine:$V
RUN x
