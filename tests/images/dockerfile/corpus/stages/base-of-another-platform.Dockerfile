FROM --platform=linux/arm64 alpine AS s
FROM s
RUN x
