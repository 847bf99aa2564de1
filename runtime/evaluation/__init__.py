"""The evaluation set: vertical slices as data, played against the real service, and what they come to."""
