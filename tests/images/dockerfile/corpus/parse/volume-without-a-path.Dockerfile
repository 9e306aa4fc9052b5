FROM a
VOLUME ["/a",""]
