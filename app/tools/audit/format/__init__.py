"""The format of dumps and findings: rows, manifest, folders."""
