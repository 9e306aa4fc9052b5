FROM alpine
RUN echo a\\
RUN b
