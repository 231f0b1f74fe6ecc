can_check = lambda p: False
