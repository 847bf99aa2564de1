"""Speaking the Model Context Protocol to the servers that this service stands in front of."""
