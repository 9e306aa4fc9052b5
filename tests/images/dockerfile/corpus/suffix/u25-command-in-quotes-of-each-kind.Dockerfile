FROM alpine
RUN x
ENTRYPOINT exec "$0" `id -u` $(date) 'a b'
CMD ["", "a b", "$HOME", "`id`", "\\", "\t"]
