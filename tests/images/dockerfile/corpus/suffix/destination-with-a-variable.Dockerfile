FROM alpine
ARG D=/d
RUN x
COPY a $D/x
