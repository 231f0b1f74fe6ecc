"""Access to the operating system: files, memory, time, signals, threads."""
