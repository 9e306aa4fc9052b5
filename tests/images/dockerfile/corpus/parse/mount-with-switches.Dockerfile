FROM a
RUN --mount=type=secret,id=s,required --mount=type=bind,target=/x,rw y
