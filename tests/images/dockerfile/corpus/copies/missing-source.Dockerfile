FROM a
COPY nothing /x
