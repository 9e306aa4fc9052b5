FROM alpine
RUN a \
  # one

  b \
# two
  c
