FROM alpine
RUN x
ENTRYPOINT ["sh","-c","echo \"$0\" \"$@\""]
