"""Alerts: watches the findings of all runs and sends new ones by webhook or mail."""
