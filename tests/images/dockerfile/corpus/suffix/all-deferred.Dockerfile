FROM alpine
WORKDIR /w
COPY a ./
ADD b /b
ENV X=1 Y=2
