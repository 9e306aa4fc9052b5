FROM alpine
ENV W=b
ARG W=a
COPY $W /x
RUN y
