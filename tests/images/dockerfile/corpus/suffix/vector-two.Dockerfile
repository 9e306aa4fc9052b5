FROM alpine:3.20
COPY install.sh /opt/
RUN sh /opt/install.sh \
  # comment
  --fast
COPY --chown=1000:1000 input/d.csv /data/
