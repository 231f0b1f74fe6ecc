"""Referees of solvers: proved optima, the race, problem files."""
