"""python -m tutti.torch: compiles the backend for the torch that is installed, and prints where it is."""

from tutti.torch._build import extension_path

print(extension_path())
