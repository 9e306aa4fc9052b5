FROM alpine
COPY --chown=1 --chown=2 a /a
