FROM a
COPY --own=me x /x
RUN y
