FROM alpine
RUN x
HEALTHCHECK --timeout=1s CMD ["/h", "a b"]
