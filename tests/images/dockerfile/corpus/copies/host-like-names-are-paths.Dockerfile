FROM a
COPY example.org/x /x
