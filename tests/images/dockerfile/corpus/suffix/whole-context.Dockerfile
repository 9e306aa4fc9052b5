FROM alpine
RUN x
COPY ./ /app
WORKDIR /app
