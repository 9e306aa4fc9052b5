FROM --platform=$TARGETPLATFORM alpine
RUN x
