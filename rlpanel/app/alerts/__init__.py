"""Alerts: watches the findings of all live runs and sends new ones by webhook or command."""
