# syntax=docker/dockerfile:1
# syntax=docker/dockerfile:1.7
FROM alpine
