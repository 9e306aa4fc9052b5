"""Files that stages hand on: canonical bytes, digests, atomic publication, receipts and the content-addressed store."""
