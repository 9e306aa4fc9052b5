FROM alpine
RUN cat <<A && sh <<B
#!/bin/a
A
#!/bin/b
B
