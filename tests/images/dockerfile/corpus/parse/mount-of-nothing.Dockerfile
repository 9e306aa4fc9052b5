FROM a
RUN --mount= y
