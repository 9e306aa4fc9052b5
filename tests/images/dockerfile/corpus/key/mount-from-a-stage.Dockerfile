FROM alpine AS s
FROM alpine
RUN --mount=type=cache,target=/c --mount=type=bind,from=s,target=/a cat /a
