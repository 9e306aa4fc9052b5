FROM alpine
RUN echo "<<EOF" a
RUN y
