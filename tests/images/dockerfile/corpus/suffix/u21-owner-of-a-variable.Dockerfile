FROM alpine
ARG U=1000
RUN x
COPY --chown=$U:${G:-100} d /d/
COPY --chown="$U" d /d/
