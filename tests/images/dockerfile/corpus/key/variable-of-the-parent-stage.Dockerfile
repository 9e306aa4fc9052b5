FROM alpine AS one
ENV WHERE=b
FROM one
COPY $WHERE /x
RUN y
