FROM alpine
RUN a \
  b
