"""One decode thread per model: prepared lanes in, rounds of draft, decode, verify, commit and rollback, text out."""
