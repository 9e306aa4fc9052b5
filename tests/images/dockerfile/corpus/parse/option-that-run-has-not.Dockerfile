FROM a
RUN --bogus=x y
