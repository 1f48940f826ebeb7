"""Hypothesis profiles, chosen with --hypothesis-profile."""

from hypothesis import HealthCheck, settings

# Time limits per example measure how busy the machine is, not the code: speed belongs in benchmarks/.
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("default", _COMMON, max_examples=60)
settings.register_profile("ci", _COMMON, max_examples=100, derandomize=True, database=None, print_blob=True)
settings.register_profile("soak", _COMMON, max_examples=5_000, stateful_step_count=200, print_blob=True)
settings.load_profile("default")
