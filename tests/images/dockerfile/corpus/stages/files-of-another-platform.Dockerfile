FROM --platform=linux/arm64 alpine AS s
FROM alpine
COPY --from=s /a /a
