"""Commands that measure, and two programs on the public interface: papers and referee."""
