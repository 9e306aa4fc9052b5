FROM alpine
RUN x
CMD first
SHELL ["/bin/bash", "-c"]
ENTRYPOINT second
