"""Every side effect that a workflow asks for. The classes are handed what they work with; they hold no state."""
