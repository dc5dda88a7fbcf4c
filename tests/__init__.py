"""Tests: unit follows the package, property states laws, ui drives a browser, bench measures."""
