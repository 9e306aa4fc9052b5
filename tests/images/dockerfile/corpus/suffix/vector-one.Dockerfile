# syntax=docker/dockerfile:1.7
FROM python:3.12-slim AS base
ARG V=2
ENV A=1
RUN pip install numpy==$V
WORKDIR /work
COPY input/ /data/input/
ENV B=x$A
USER nb
CMD ["sh"]
