FROM Alpine
