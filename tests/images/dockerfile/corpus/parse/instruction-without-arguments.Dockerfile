FROM alpine
RUN
