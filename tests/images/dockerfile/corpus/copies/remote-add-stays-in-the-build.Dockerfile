FROM a
ADD git@example.org:x/y.git /y
ADD https://example.org/x /x
