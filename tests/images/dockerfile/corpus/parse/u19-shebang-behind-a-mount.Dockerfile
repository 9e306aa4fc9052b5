FROM alpine
RUN --mount=type=cache,target=/c <<-EOF
	#!/bin/sh -eu
	echo "$A"
	EOF
