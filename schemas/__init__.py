"""Every type that crosses a border of the service. Pure: no I/O, no clock, no randomness except in `ids`."""
