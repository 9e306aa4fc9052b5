FROM a b c d
