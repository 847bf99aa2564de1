"""The demo agent: a script of tool calls, the world it plays in, and the check that all went as it should."""
