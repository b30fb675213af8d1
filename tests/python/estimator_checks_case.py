"""scikit-learn's own checks of estimators pass, but for those that simurgh.sklearn lists."""

import time
import warnings

from package import simurgh  # noqa: F401
from case import expect, skip

try:
    import pandas  # noqa: F401
    import sklearn
    from sklearn.utils.estimator_checks import check_estimator
except ImportError as error:
    skip(f"{error.name} is missing")

from simurgh.sklearn import EXPECTED_FAILED_CHECKS, SimurghClassifier, SimurghRegressor


def results_of(estimator):
    """Yields name, whether it passed, and the exception of each check that was not skipped."""
    version = tuple(map(int, sklearn.__version__.split(".")[:2]))
    if version >= (1, 6):
        results = check_estimator(estimator, expected_failed_checks=EXPECTED_FAILED_CHECKS, on_skip=None, on_fail=None)
        for result in results:
            if result["status"] not in ("skipped", "xfail"):
                yield result["check_name"], result["status"] == "passed", result["exception"]
        return
    from unittest import SkipTest

    for one, check in check_estimator(estimator, generate_only=True):
        name = getattr(check, "func", check).__name__
        try:
            check(one)
            yield name, True, None
        except SkipTest:
            pass
        except Exception as error:
            yield name, False, error


warnings.simplefilter("ignore")  # Trainings on a few rows of noise warn of their results.
for kind in (SimurghClassifier, SimurghRegressor):
    begin = time.monotonic()
    passed = 0
    for name, has_passed, error in results_of(kind(epochs=10, refit=False)):
        expect(has_passed, f"{kind.__name__}: {name}: {error!r}")
        passed += has_passed
    expect(passed > 40, f"{kind.__name__}: {passed} checks")
    print(f"{kind.__name__}: {passed} checks in {time.monotonic() - begin:.1f} s", flush=True)
