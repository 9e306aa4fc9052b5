FROM alpine
COPY <<'run.sh' /bin/run
#!/bin/sh
echo "$0"
run.sh
