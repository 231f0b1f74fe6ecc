"""Many settings of one machine on the same rows, solved together by compiled passes, without
certificates.
"""
