"""The two ends of each formulation in ball arithmetic: the objective at the model, the dual
objective at the dual point.
"""
