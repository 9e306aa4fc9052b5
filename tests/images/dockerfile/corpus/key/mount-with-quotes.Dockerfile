FROM a
RUN --mount='type=bind,"target=/x,y"' y
