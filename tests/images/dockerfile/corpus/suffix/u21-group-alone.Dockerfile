FROM alpine
RUN x
COPY --chown=:1000 d /d/
COPY --chown=1000: d /d/
COPY --chown=0 --link d /d/
