FROM alpine
SHELL ["/bin/bash", "-lc"]
RUN x
CMD serve
