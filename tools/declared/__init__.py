"""What tools without code have in common, whatever they speak: fields, names, and the life of a write."""
