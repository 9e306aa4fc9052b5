FROM alpine
COPY ../app /app
ADD ["/d/../../../b", "/b"]
RUN true
