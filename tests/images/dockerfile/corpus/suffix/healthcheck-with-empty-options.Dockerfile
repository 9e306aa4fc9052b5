FROM a
HEALTHCHECK --interval= --timeout=0 --retries= CMD x
