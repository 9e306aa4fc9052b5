FROM alpine
RUN <<EOF
echo
