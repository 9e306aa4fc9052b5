FROM alpine
EXPOSE ["80"]
