# a comment
# escape=`
FROM alpine
RUN x
