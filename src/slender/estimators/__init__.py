"""scikit-learn estimators: validate, encode labels, call a solver, keep coef_."""
