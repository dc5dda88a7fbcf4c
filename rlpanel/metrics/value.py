"""What the critic thought, and the weights it led to."""

from __future__ import annotations

import numpy as np

from rlpanel.metrics.registry import metric


@metric("value", level="token", unit="reward", reductions=("mean",), scale="diverging", color="length")
def value(values: np.ndarray) -> np.ndarray:
    """The critic's value at each token.

    Parameters
    ----------
    values : ndarray of float, shape (T,)

    Returns
    -------
    ndarray of float, shape (T,)
    """
    return values


@metric("token advantage", level="token", reductions=("mean",), scale="diverging", color="reference")
def token_advantage(advantages: np.ndarray) -> np.ndarray:
    """The weight the loss gave each token, as logged.

    Parameters
    ----------
    advantages : ndarray of float, shape (T,)

    Returns
    -------
    ndarray of float, shape (T,)
    """
    return advantages


@metric("return", level="token", unit="reward", reductions=("mean",), scale="diverging", color="good")
def token_return(returns: np.ndarray) -> np.ndarray:
    """The return the critic was trained towards, as logged.

    Parameters
    ----------
    returns : ndarray of float, shape (T,)

    Returns
    -------
    ndarray of float, shape (T,)
    """
    return returns
