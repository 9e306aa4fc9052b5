FROM alpine
ENV --x A=b
