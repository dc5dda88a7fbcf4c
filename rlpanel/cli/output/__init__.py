"""What commands print: tables for a person or for programs, findings, and messages."""
