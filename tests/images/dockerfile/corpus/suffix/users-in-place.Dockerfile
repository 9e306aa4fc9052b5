FROM alpine
RUN x
USER app
WORKDIR /a/b
USER ${NB_UID}
