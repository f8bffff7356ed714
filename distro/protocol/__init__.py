"""The decisions: what to send, verify, fetch, load and claim, and when. Events and time in, actions out."""
