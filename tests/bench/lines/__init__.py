"""One module for each line that can be measured alone; `measure(lab)` gives its figures."""
