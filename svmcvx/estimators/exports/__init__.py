"""Fitted estimators as models of other packages."""
