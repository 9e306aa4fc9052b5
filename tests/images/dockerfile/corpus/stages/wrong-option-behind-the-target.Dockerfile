FROM a AS t
RUN x
FROM --foo b
