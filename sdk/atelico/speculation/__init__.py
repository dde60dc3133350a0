"""Proposers (one file each), the gates that veto them, and the composition of a draft."""
