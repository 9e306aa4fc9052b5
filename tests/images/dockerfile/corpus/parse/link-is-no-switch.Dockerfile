FROM a
COPY --link=zz . /x
