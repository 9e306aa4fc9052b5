FROM --platform=Linux/X86_64/v1 alpine
RUN x
