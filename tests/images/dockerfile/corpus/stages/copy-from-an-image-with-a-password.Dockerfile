FROM a
COPY --from=u:SECRET@reg.io/x /a /b
RUN x
