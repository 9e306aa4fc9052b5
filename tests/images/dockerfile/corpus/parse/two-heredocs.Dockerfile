FROM alpine
COPY <<one <<two /d/
a
one
b
two
