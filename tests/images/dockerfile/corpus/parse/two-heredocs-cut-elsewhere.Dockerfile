FROM alpine
COPY <<A <<B /x/
a
b
A
B
