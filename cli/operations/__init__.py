"""The operations page of running actors (`leasehold serve --actors`): it shows them, and closes and recovers.

Theory of operation. Each actor is watched in a thread of its own (watch.py), so that one that does not answer delays
nobody. Another thread verifies their events as `leasehold verify --follow` does (violations.py). The server (server.py)
puts the last views together whenever one of them has changed, and pages fetch that. All of it is for those who have a
session (access.py). Each action is written down before it is sent, and again with its outcome (audit.py).

The page knows what the control sockets and the specification of the actors say, and no state of any system by name.
"""
