"""What holds for all values of a hyper-parameter in a range: paths of solutions, and the best of
them.
"""
