FROM alpine
RUN x
COPY --chown=\$U d /d/
COPY --chown='$U' d /d/
COPY --chown=\\$U d /d/
COPY --chown='\\$U' d /d/
COPY --chown=\\\\$U d /d/
COPY --chown="1 2":\"3\" d /d/
COPY --chown=$U\"\":4 d /d/
