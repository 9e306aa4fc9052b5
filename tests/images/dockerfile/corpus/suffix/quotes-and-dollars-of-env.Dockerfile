FROM alpine
RUN x
ENV A="$(date)"
ENV B="`date`"
ENV C="x y"
ENV D='$HOME'
ENV E=a\$b$A
ENV F="it's"
ENV G="x\y"
