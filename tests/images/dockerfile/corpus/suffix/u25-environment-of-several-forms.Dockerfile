FROM alpine
RUN x
ENV A=`id` B="$(echo "q")" C='`id`$(x)'
ENV D $(date) "as it is"
