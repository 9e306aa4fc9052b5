FROM a
COPY ../x /x
