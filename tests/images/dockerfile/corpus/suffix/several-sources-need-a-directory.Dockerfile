FROM alpine
COPY a b /c
