"""The outputs of a check, for people and monitors: page, plots, summary, textfile, alert."""
