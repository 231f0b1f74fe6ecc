"""The multi-class family: M3SVM and its relatives."""
