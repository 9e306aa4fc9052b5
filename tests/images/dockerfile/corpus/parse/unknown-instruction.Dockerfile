FROM alpine
RUNN x
