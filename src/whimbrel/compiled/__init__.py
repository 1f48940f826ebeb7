"""The one way Numba is used: how functions are compiled, kept on disk and given arrays. Nothing else imports Numba."""
