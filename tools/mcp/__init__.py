"""Tools that call those of an MCP server behind this service: what is sent, and what is believed, is in `mcp.yaml`."""
