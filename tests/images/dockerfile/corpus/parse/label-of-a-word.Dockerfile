FROM alpine
LABEL a=b c
