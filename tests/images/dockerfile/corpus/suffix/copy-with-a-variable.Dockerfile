FROM alpine
ARG S=a
RUN x
COPY $S /a
