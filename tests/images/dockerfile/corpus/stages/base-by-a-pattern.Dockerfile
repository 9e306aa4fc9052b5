ARG IMAGE=ubuntu@22.04-slim
FROM ${IMAGE/@/:} AS a
RUN true
FROM python:${IMAGE##*-}
RUN true
