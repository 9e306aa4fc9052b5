FROM alpine
RUN <<EOF
echo a
# not a comment

echo b \
EOF
