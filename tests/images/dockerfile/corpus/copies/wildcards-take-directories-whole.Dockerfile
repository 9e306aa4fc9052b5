FROM alpine
COPY d*/in? [xy].txt /x/
COPY ["a b*", "/x/"]
ADD https://example.org/a?b=* /x/
RUN y
