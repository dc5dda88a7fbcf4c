"""Colours as they look without one kind of cones, and their distance in CIELAB."""

from __future__ import annotations

import numpy as np

#: Machado, Oliveira and Fernandes 2009, "A Physiologically-based Model for Simulation of Color Vision
#: Deficiency", full severity, on linear RGB.
EYES = {
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}

#: From linear sRGB to XYZ (IEC 61966-2-1), divided by the white point D65.
_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
) / np.array([[0.95047], [1.0], [1.08883]])


def rgb(code: str) -> np.ndarray:
    """Return a hex code as three shares of one."""
    return np.array([int(code[at : at + 2], 16) for at in (1, 3, 5)]) / 255


def _linear(color: np.ndarray) -> np.ndarray:
    return np.where(color <= 0.04045, color / 12.92, ((color + 0.055) / 1.055) ** 2.4)


def seen_by(color: np.ndarray, eye: np.ndarray) -> np.ndarray:
    """Return a colour, as three shares of one, as an eye sees it."""
    light = np.clip(eye @ _linear(color), 0, 1)
    return np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)


def lab(color: np.ndarray) -> np.ndarray:
    """Return a colour, as three shares of one, in CIELAB."""
    share = _XYZ @ _linear(color)
    x, y, z = np.where(share > 216 / 24389, np.cbrt(share), (24389 / 27 * share + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def distance(one: str, other: str, eye: np.ndarray) -> float:
    """Return the distance of two hex codes in CIELAB (ΔE 1976) as an eye sees them."""
    return float(np.linalg.norm(lab(seen_by(rgb(one), eye)) - lab(seen_by(rgb(other), eye))))
