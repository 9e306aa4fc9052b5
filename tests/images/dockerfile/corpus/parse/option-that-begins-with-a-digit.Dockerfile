FROM alpine
RUN --1 true
