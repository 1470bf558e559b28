"""What the command line's verbs do, one file each."""
