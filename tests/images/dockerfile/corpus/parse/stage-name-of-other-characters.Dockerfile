FROM a AS A_b!
