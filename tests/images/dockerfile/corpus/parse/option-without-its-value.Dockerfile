FROM alpine
RUN --network true
