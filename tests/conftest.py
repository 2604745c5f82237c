"""How every test runs: properties draw the same examples on every machine, at any speed."""

import os

from hypothesis import HealthCheck, settings

# Tests run beside each other and start processes: with PyTorch's thread for each core in every one
# of them, they would mostly wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile(
    "gate", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", parent=settings.get_profile("gate"), derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))
