FROM alpine
ENV WHERE=a
COPY ${WHERE:-b} /x
RUN y
