"""A small system with a clock, an option and a bounded number, for the tests of several formats."""

LAMP = {
    "system.yaml": "system: lamp\nroles: {lamp: {}}\nenvironment: {press: {to: lamp}}\nclock: {horizon: 3}\n",
    "roles/lamp.yaml": """
role: lamp
data: {pressed: {type: int, min: 0, max: 1}, since: {type: "option[time]"}}
events: {press: Somebody presses the button.}
states:
  dark:
    initial: true
    on: {press: {to: bright, set: {pressed: 1, since: now}}}
  bright:
    on:
      press: {to: dark, set: {since: none}}
      tick: {to: dark, when: "now > get(since, now)", set: {since: none}}
""",
}
