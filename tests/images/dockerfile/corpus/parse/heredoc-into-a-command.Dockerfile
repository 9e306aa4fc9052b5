FROM alpine
RUN cat <<EOF > /x && true
a
EOF
RUN y
