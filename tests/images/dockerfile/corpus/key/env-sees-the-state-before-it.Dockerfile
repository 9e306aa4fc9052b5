FROM alpine
ENV W=a
ENV W=b V=$W
COPY $V /x
RUN y
