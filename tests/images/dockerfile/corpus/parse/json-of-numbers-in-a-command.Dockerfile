FROM alpine
CMD ["a", null]
