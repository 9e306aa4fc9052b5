FROM alpine
COPY ../a /a
COPY b/../a /b
