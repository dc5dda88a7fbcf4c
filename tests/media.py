"""Tiny audio and video for tests, and files that only claim to be some."""

from __future__ import annotations

import base64
import io
import math
import wave
from pathlib import Path

RATE = 8_000
#: 1.2 s of a canvas that changes its colour, recorded by Chromium's MediaRecorder (VP8, 64 × 48 pixels).
CLIP = (Path(__file__).parent / "data" / "media" / "clip.webm").read_bytes()
SCRIPT = b"<script>window.ran = 1</script>"
#: Name → bytes that are no audio or video, whatever their name says.
IMPOSTORS = {
    "drawing.mp4": b'<svg xmlns="http://www.w3.org/2000/svg" onload="window.ran = 1"></svg>',
    "page.webm": b"<!doctype html>" + SCRIPT,
    "late.mp4": SCRIPT + b"\x00\x00\x00\x20ftypisom",
    "document.wav": b"%PDF-1.7\nRIFF\x10\x00\x00\x00WAVE",
    "matroska.webm": b"\x1a\x45\xdf\xa3\x8b\x42\x82\x88matroska",
    "empty.mp3": b"",
    "text.mp3": b"\xff\xfe<\x00h\x00t\x00m\x00l\x00>\x00",
    "riff.wav": b"RIFF\x10\x00\x00\x00WEBPVP8 ",
}


def sound(seconds: float = 2.0) -> bytes:
    """Return a WAV file with a tone of 440 Hz, 8 bits per sample."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(1)
        file.setframerate(RATE)
        frames = (128 + round(60 * math.sin(math.tau * 440 * at / RATE)) for at in range(int(seconds * RATE)))
        file.writeframes(bytes(frames))
    return buffer.getvalue()


def polyglot() -> bytes:
    """Return a WAV file that is also read as an HTML page with a script by a browser that guesses types."""
    made = bytearray(sound(0.1))
    made[44 : 44 + len(SCRIPT)] = SCRIPT
    return bytes(made)


def in_base64(data: bytes) -> str:
    """Return bytes as the base64 text that a log holds."""
    return base64.b64encode(data).decode()
