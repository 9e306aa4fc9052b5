FROM alpine
RUN ["echo", "<<EOF"]
RUN y
