FROM a AS b-1_.c
EXPOSE 80-82/UDP 1.2.3.4:8080:80 $P/tcp
VOLUME ["/a"]
ONBUILD RUN --mount=type=cache,target=/x y
RUN --mount=type=$T,target=/x --mount=target=/y,type=Cache --network=none --security=sandbox z
