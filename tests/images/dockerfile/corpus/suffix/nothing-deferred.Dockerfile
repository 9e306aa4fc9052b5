FROM alpine
RUN x
