FROM a AS Build
FROM --platform=linux/amd64 b AS other
FROM build
RUN x
