"""The margin-distribution family: ODM and ODML."""
