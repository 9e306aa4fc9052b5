FROM alpine
RUN x
ENV A b c d
ENV P /x:$PATH
