"""The one way Numba is used: compiles functions, keeps them on disk, passes arrays. No other package imports Numba."""
