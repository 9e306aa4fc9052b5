FROM alpine
RUN x
COPY --chown="1000 d /d/
