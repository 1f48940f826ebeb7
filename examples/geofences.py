"""Geofences: vehicles move, zones are told who enters and who leaves.

A publication stays: the zone hears of a vehicle once when it comes in, not with every position. A small
`hysteresis` keeps a vehicle on the line from entering and leaving all the time.

It prints:

    van-1 -> harbour: enter
    van-2 -> airport: enter
    van-1 -> harbour: leave
    van-1 -> airport: enter
    inside the airport now: van-1, van-2
"""

from whimbrel.spaces import SubjectSpaces

spaces = SubjectSpaces()
spaces.define("town", {"x": "number", "y": "number"})
spaces.subscribe("harbour", [{"x": "[0, 10]", "y": "[0, 5]"}], leave=True, hysteresis={"x": 1, "y": 1})
spaces.subscribe("airport", [{"x": "[40, 60]", "y": "[20, 40]"}], leave=True)

told = [spaces.publish("van-1", [{"x": 3, "y": 4}]), spaces.publish("van-2", [{"x": 45, "y": 30}])]
for x, y in [(9, 5), (10.5, 5.5), (25, 15), (41, 22)]:  # the second position is out of the harbour by less than 1
    told.append(spaces.update_publication("van-1", {"x": x, "y": y}))

for notifications in told:
    for one in notifications:
        print(f"{one.publication} -> {one.subscription}: {one.kind}")

inside = [van for van in ("van-1", "van-2") if "airport" in spaces.matches(van)]
print(f"inside the airport now: {', '.join(inside)}")
