FROM alpine
COPY ../*.txt /x/
RUN true
