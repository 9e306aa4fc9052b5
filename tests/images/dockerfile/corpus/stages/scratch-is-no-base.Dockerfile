FROM scratch
COPY a /a
