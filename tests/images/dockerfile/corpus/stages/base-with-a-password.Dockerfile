FROM u:SECRET@reg.io/x
