FROM a AS base
ONBUILD COPY f /f
FROM base
RUN x
