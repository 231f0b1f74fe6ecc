FAMILY = {}
