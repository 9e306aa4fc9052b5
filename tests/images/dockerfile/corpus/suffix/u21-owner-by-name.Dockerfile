FROM alpine
RUN x
COPY --chown=app:staff d /d/
ADD --chown=app d /d/
