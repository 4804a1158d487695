"""The pure core: values in, values out. What may never appear here is in README.md beside this file."""
