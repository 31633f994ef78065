"""What Fisher vectors are relative to, learned from sampled descriptors: PCA, then a mixture.

Principal components are divided by their deviations.  A Fisher vector does not depend on the scale
of a component, but one bound from below for all variances then makes sense, and keeps the
arithmetic of the encoder in float32 exact enough: nothing is farther away than some tens of σ.
"""

import warnings

import numpy as np
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from .encoding import Floats, Mixture, Projection

FLOOR = 0.01  # added to variances, which are 1 in all: flat patches are all the same point
DEPENDENT = 1e-3  # of the largest deviation; below it a component is rounding (of grey images, say)
ITERATIONS = 100


def learn_projection(X: Floats, n_components: int, seed: int) -> Projection:
    """The leading principal components of the rows, each divided by its deviation."""
    pca = PCA(n_components, random_state=seed).fit(X)
    deviations = np.sqrt(pca.explained_variance_)
    least = DEPENDENT * deviations.max() or 1.0  # 1: all rows are equal
    components = pca.components_ / np.maximum(deviations, least)[:, None]
    return Projection(*(np.ascontiguousarray(a, np.float32) for a in (pca.mean_, components)))


def check_variety(X: Floats, n_gaussians: int) -> None:
    """Raise an error if there are fewer different rows than Gaussians."""
    seen = set()
    for row in X:  # few, if all is well
        seen.add(row.tobytes())
        if len(seen) == n_gaussians:
            return
    raise ValueError(
        f"the sampled patches have only {len(seen)} different descriptors, too few for "
        f"n_gaussians={n_gaussians}; give images with more texture, or fewer Gaussians"
    )


def learn_mixture(Z: Floats, n_gaussians: int, seed: int) -> Mixture:
    """A mixture fitted by EM from k-means; one that has not converged will do."""
    gmm = GaussianMixture(
        n_gaussians,
        covariance_type="diag",
        reg_covar=FLOOR,
        max_iter=ITERATIONS,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        gmm.fit(Z)
    parts = gmm.weights_, gmm.means_, gmm.covariances_
    return Mixture(*(np.ascontiguousarray(part, np.float64) for part in parts))
