FROM alpine
COPY . /app
