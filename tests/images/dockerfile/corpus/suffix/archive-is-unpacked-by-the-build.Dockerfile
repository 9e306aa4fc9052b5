FROM alpine
ADD a.tgz /a/
