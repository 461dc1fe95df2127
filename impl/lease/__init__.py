"""The rules of leases: tickets, inventories, clients' demands, and the policies of the three roles."""

# The policy of a role where its configuration names none.
DEFAULT_POLICIES = {
    "service_manager": "fixed_demand",
    "broker": "first_come_first_served",
    "authority": "first_fit",
}
# Where the record of the parent of subsidiary machines has what its lease knows of each.
PROPERTIES_IN = {"guest": "unit_properties", "unit": "unit_properties"}
# What probes find, by role, where a configuration does not say and the specification has the event.
DEFAULT_PROBES = {"unit": "lost"}
