"""A small bank, for trying tools of one's own on."""
