FROM a
COPY --from=$X /a /b
RUN x
