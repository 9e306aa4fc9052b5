FROM a
RUN --network=foo y
