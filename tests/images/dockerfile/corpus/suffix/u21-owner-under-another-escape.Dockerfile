# escape=`
FROM alpine
RUN x
COPY --chown=`$U d /d/
COPY --chown=\$U d /d/
