"""What people and monitors read of a check: page, plots, summary, textfile, alert."""
