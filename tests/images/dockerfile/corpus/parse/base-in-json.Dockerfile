FROM ["alpine"]
