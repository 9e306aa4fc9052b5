from alpine
run	\
 a
