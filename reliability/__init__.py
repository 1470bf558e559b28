"""Proof that stays: programs that try to break stmg, and what they found (see RELIABILITY.md)."""
