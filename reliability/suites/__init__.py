"""What the tests that other clients bring say of a cluster of real nodes.

`python -m reliability.suites NAME`: `model.py` says what a suite is and how its run is judged,
`go_suites.py` and `python_suite.py` how the tests are fetched and run, `named.py` which there are
and what is known not to pass, with the reason.
"""
