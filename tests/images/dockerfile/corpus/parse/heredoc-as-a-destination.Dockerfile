FROM alpine
COPY a <<EOF
x
EOF
