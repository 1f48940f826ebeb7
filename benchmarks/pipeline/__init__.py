"""What `whimbrel bench pipeline` runs beside Whimbrel: the same question in plain Spark SQL, one way per file.

They are rivals and oracle at once: each must find as many pairs as Whimbrel does. `RIVALS` maps the name that
`--rivals` takes to the module, whose class `Join` is the rival. `works.py` is the frozen list of what is measured.
"""

RIVALS = {"access": "access_join", "nested": "nested_loop", "counting": "counting"}
