FROM alpine
RUN true
COPY app/ /app/
WORKDIR /app
