"""python -m stmg: the command line."""

from stmg.cli import main

main()
