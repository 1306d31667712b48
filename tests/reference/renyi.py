"""Renyi divergences by direct integration of densities, in arithmetic of many digits."""

import mpmath as mp


def gaussian_mixture(order, noise, rate, digits=24):
    """D_a((1 - q) N(0, s^2) + q N(1, s^2) || N(0, s^2)), from the two densities."""
    with mp.workdps(digits):
        order, noise, rate = mp.mpf(order), mp.mpf(noise), mp.mpf(rate)

        def integrand(x):
            null = mp.npdf(x, 0, noise)
            return null * ((1 - rate) + rate * mp.npdf(x, 1, noise) / null) ** order

        edges = mp.linspace(-14 * noise, order + 14 * noise, 24)
        return mp.log(mp.quad(integrand, edges, method="gauss-legendre", maxdegree=4)) / (order - 1)


def fixed_size_gaussian(order, noise, rate, digits=24):
    """The order-a divergence whose two hockey-stick divergences are the amplified Gaussian's.

    Straight from the representation as an integral of hockey-stick divergences over thresholds.
    """
    with mp.workdps(digits):
        order, noise, rate = mp.mpf(order), mp.mpf(noise), mp.mpf(rate)

        def hockey_stick(log_y):
            t = log_y * noise
            half = 1 / (2 * noise)
            return mp.ncdf(half - t) - mp.exp(log_y) * mp.ncdf(-half - t)

        def integrand(log_y):
            x = 1 + rate * mp.expm1(log_y)
            powers = x ** (order - 2) + x ** (-order - 1)
            return powers * rate * hockey_stick(log_y) * rate * mp.exp(log_y)

        edges = mp.linspace(0, order / noise**2 + 16 / noise, 20)
        moment = 1 + order * (order - 1) * mp.quad(
            integrand, edges, method="gauss-legendre", maxdegree=4
        )
        return mp.log(moment) / (order - 1)


def discrete(order, P, Q):
    """D_a(P || Q) of two lists of probabilities."""
    pairs = [(mp.mpf(p), mp.mpf(q)) for p, q in zip(P, Q, strict=True)]
    moment = mp.fsum(p**order * q ** (1 - order) for p, q in pairs)
    return mp.log(moment) / (order - 1)


def laplace(order, epsilon, digits=24):
    """D_a of unit Laplace noise moved by epsilon, from the densities."""
    with mp.workdps(digits):
        order, epsilon = mp.mpf(order), mp.mpf(epsilon)

        def integrand(x):
            return mp.exp(-order * abs(x - epsilon) + (order - 1) * abs(x)) / 2

        moment = mp.quad(integrand, [-mp.inf, 0, epsilon, mp.inf])
        return mp.log(moment) / (order - 1)


def epsilon(divergence, orders, delta):
    """Proposition 12 of Canonne, Kamath & Steinke over the given orders."""
    return min(
        divergence(a) + mp.log1p(-1 / a) - (mp.log(delta) + mp.log(a)) / (a - 1)
        for a in map(mp.mpf, orders)
    )
