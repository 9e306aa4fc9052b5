FROM alpine
RUN x
COPY --link --chown=app:app ["a", "b c", "/d/"]
