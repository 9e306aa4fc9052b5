FROM alpine
COPY $WHERE /x
RUN y
