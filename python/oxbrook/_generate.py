"""`python -m oxbrook._generate`: the load generator as a process of its own, for `oxbrook bench`.

Invariant: it serves nothing; a JSON object on standard input is the load, one on standard output the report.
"""

import json
import sys

from oxbrook._core import generate_load

if __name__ == "__main__":
    load = json.load(sys.stdin)
    load["headers"] = [(name, value) for name, value in load["headers"]]
    print(generate_load(load))
