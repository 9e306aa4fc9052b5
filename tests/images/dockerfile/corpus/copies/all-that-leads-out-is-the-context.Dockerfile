FROM alpine
COPY .. /all
RUN true
