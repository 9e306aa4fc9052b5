FROM alpine
RUN [ -f x ] || true
CMD [NaN]
