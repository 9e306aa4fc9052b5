FROM alpine
CMD --help
