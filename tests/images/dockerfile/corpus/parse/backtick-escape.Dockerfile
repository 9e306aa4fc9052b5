# escape=`
FROM alpine
RUN dir `
  c:\x
