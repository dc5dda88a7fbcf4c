"""The network of a client: what is counted and limited as one client."""

from __future__ import annotations

import ipaddress


def network_of(address: str) -> str:
    """Return the address, or the /64 network of an IPv6 address: one client owns all of it."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if parsed.version == 4:
        return str(parsed)
    return str(ipaddress.ip_network((parsed, 64), strict=False))
