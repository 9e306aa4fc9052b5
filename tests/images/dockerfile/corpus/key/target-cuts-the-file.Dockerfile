FROM a AS one
RUN x
FROM b AS two
COPY nothing /x
