FROM alpine
COPY ../*.txt /x/
