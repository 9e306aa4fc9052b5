FROM a
HEALTHCHECK --interval=1us CMD x
