FROM alpine
RUN x
EXPOSE 80 53/udp
EXPOSE 81/tcp
VOLUME /a
VOLUME ["/b c"]
STOPSIGNAL SIGINT
HEALTHCHECK --interval=5s --retries=4 --start-period=1m1.5s CMD curl -f x
ENTRYPOINT ["/init"]
CMD serve --now
LABEL a=b
MAINTAINER me
