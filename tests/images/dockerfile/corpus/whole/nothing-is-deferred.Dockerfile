FROM x
WORKDIR /w
COPY a /a
CMD ["serve"]
