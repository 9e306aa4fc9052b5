FROM alpine
COPY --chmod=755 a /a
