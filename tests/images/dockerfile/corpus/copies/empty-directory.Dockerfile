FROM alpine
COPY app/ data.csv nested/./inner/ /app/
RUN true
