FROM a
RUN --network=none x
RUN --network=host --security=sandbox y
