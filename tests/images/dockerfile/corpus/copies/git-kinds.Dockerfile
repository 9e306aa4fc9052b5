FROM a
ADD https://example.org/x.git#main /x
ADD git://example.org/x /y
RUN z
