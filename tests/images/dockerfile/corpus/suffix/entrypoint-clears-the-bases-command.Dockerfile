FROM alpine
RUN x
ENTRYPOINT ["/init"]
