FROM a
onbuild onbuild RUN x
