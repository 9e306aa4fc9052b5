FROM alpine
ARG V=1.2.3
COPY app-${V%%.*}/ /app/
RUN true
