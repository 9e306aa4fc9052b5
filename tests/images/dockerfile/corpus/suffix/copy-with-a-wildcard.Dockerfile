FROM alpine
COPY *.txt /t/
