FROM a AS one
