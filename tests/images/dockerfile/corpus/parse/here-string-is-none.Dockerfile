FROM alpine
RUN cat <<< "a b"
RUN y
