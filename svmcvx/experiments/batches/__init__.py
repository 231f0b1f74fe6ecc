"""Fits of a search that are solved in batches, without certificates, and the certificates of those
that decide.
"""
