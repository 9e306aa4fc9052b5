FROM alpine
COPY --chown=1000:1000 d /d/
RUN x
