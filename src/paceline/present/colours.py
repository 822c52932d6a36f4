"""Colours of phases and lines: Okabe and Ito's palette, which people with any kind of colour vision can tell apart."""

ORANGE, SKY_BLUE, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILION, PURPLE, GREY, BLACK = "#0072B2", "#D55E00", "#CC79A7", "#999999", "#000000"

LINE_COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY_BLUE, GREY, YELLOW)
PHASE_COLOURS = {
    "compute": GREEN,
    "pull": SKY_BLUE,
    "push": BLUE,
    "wait": VERMILION,
    "data": ORANGE,
    "eval": PURPLE,
    "checkpoint": YELLOW,
    "fused": GREY,
    "forward": GREEN,
    "backward": SKY_BLUE,
    "exchange": BLUE,
    "optimizer": BLACK,
    "other": GREY,
}
FAULT_COLOUR = PURPLE
INCIDENT_COLOUR = VERMILION
IDEAL_COLOUR = GREY
