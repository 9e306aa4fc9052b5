FROM a
COPY https://example.org/x /x
