FROM alpine AS build
RUN x
FROM busybox
COPY --from=build /out /out
