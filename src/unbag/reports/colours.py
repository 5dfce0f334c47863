"""Colours and markers of all pictures."""

# Told apart by all common kinds of colour vision (after Okabe and Ito).
BLUE, ORANGE, GREEN, PURPLE, GOLD = "#0072b2", "#d55e00", "#009e73", "#b5568b", "#b58900"
INK, GREY, FAINT = "#1b1f24", "#6b7280", "#c9ced6"
CLASS_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, GOLD)
MARKERS = ("o", "s", "^", "D", "v")
