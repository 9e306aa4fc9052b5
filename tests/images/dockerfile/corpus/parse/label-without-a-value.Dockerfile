FROM alpine
LABEL a
