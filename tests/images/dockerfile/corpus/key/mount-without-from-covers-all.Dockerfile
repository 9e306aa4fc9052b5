FROM alpine
RUN --mount=type=bind,source=a,target=/a cat /a
