"""Wire formats as pure functions: a body to a request, a reply to a body or events, an error to a body."""
