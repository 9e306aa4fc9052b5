FROM alpine
RUN <<'EOF'
#!/usr/bin/env python3
print("$x")
EOF
