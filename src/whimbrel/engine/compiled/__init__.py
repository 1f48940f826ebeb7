"""How kernels are compiled, kept on disk, told of, and handed their arrays."""
