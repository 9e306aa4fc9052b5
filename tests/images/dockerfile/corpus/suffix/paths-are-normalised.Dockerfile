FROM alpine
COPY ./a//./b /x
COPY /a/ /y
