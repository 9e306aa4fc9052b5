FROM alpine
RUN --mount=type=cache,target=/c --mount=target=/src make
