FROM alpine
RUN <<-EOF
	a
		 b
	EOF
