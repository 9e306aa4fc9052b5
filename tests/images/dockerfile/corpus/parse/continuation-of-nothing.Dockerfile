FROM alpine
\

# c
