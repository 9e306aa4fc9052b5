FROM alpine
RUN echo it's <<EOF
RUN x
