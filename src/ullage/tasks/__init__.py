"""One file, one member; the file name is the member's name."""
