"""Other engines at the problems of the catalogue, each in a process of its own."""
