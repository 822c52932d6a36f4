"""What is said if packages cannot be installed on a machine."""

import pytest

from paceline.hosts.prepare import explain_failure


@pytest.mark.parametrize(
    ("output", "says"),
    [
        ("", ""),
        ("it has no python3.11: install Python there\n", "it has no python3.11: install Python there"),
        (
            "ERROR: Could not find a version for torch\nERROR: No matching distribution found\n",
            "(Could not find a version for torch): give it access to PyPI",
        ),
        (
            "ERROR: Cannot install paceline because of conflicts.\n\nERROR: ResolutionImpossible: see x\n",
            "(Cannot install paceline because of conflicts.): give it access to PyPI, or send the packages",
        ),
    ],
)
def test_the_line_that_says_what_went_wrong_is_chosen(output: str, says: str) -> None:
    assert says in explain_failure(output)
    assert "\n" not in explain_failure(output)
