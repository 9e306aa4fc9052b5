FROM alpine
CMD ["a"]
RUN x
ENTRYPOINT ["/init"]
