FROM x AS one
ENTRYPOINT ["/init"]
EXPOSE 80
FROM one
CMD ["serve"]
