FROM alpine
COPY ../app/ /app/
RUN true
