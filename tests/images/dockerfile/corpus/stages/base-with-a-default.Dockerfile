ARG V
FROM python:${V:-3.12}
