FROM alpine
RUN --mount=type=cache,target=/a --mount=type=tmpfs,target=/b true
COPY --exclude=a --exclude=b --link=TRUE --parents d /d/
