"""What touches the machine: files, memory, signals."""
