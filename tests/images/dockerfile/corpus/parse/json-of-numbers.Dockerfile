FROM alpine
RUN ["a", 1]
