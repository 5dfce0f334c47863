"""What is minimised, in score space: value and gradient by the scores, many columns at once."""
