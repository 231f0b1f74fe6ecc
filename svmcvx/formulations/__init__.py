"""The formulations: statement, builders, recovery and certificate of each in a room of its own."""
