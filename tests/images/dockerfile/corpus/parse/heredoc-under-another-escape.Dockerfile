# escape=`
FROM alpine
RUN cat <<\EOF
x
EOF
RUN y
