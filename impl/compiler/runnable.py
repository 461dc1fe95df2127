"""What can run: machines that read their own record, the event and the clock, and talk by mailboxes.

An abstract specification may read other machines in its guards, or have channels that no network gives; it is explored
and proved like any other. Each thing here is found before anything is compiled, with its place and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterator

from leasehold.spec.language import expression as x
from leasehold.spec.language.diagnostics import Place
from leasehold.spec.language.model import Call, Drive, Role, Send, System


class NotRunnable(Exception):
    """A specification cannot run, though it can be explored. The user's to decide.

    Attributes:
        reasons: place, what, and the remedy, of each thing.
    """

    def __init__(self, system: str, reasons: list[tuple[Place, str, str]]) -> None:
        self.system, self.reasons = system, reasons
        lines = [f"{place}: {what}\n  remedy: {remedy}" for place, what, remedy in reasons]
        super().__init__(f"{system} cannot run:\n" + "\n".join(lines))


def check(system: System) -> None:
    """Raises NotRunnable, with every reason, where a system cannot run."""
    reasons = [*_channels(system)]
    for role in system.roles.values():
        reasons += _role(system, role)
    if reasons:
        raise NotRunnable(system.name, reasons)


def _channels(system: System) -> Iterator[tuple[Place, str, str]]:
    for channel in system.channels.values():
        if channel.kind != "mailbox":
            yield (
                channel.place, f"channel `{channel.name}` is a {channel.kind}, which no network keeps to",
                "make it `kind: mailbox`: what sequence numbers make of any network",
            )  # fmt: skip


def _role(system: System, role: Role) -> Iterator[tuple[Place, str, str]]:
    parent = system.roles[role.parent] if role.parent else None
    if parent is not None and parent.parent:
        yield role.place, f"`{role.name}` is subsidiary to `{parent.name}`, which is subsidiary itself", "join the two"
    for datum in role.data.values():
        if datum.any_initial:
            yield datum.place, f"`{datum.name}` may begin with any value", "give it one: `initial: VALUE`"
    below = {r.name for r in system.roles.values() if r.parent == role.name}
    for transition in role.transitions():
        what = f"transition {transition.name}"
        for e in (transition.guard, *(u.value for u in transition.updates), *(u.key for u in transition.updates)):
            yield from _reads(e, below, transition.place, what)
    for task in role.tasks.values():
        what = f"task `{task.name}` of `{role.name}`"
        inside: list[x.Expression | None] = [task.when]
        if not isinstance(task, Call):
            inside += [task.only, *task.fields.values()]
        for e in inside:
            yield from _reads(e, below, task.place, what)
            if e is not None and x.mentions(e, lambda n: isinstance(n, x.Now)):
                yield (
                    task.place, f"{what} reads the clock, so recovery could not do the same again",
                    "keep the time that it needs in the record",
                )  # fmt: skip
        if isinstance(task, Drive):
            for e in task.answers.values():
                yield from _reads(e, below, task.place, what)
        if isinstance(task, Send) and parent is not None:
            yield task.place, f"{what} sends, and `{role.name}` is subsidiary", f"let `{parent.name}` send it"


def _reads(e: x.Expression | None, below: set[str], place: Place, what: str) -> Iterator[tuple[Place, str, str]]:
    for node in x.walk(e) if e is not None else ():
        match node:
            case x.Data(role=role, owner=owner) | x.State(role=role, owner=owner) if role not in below and not (
                owner is None or isinstance(owner, x.Self)
            ):
                yield place, f"{what} reads a machine of `{role}`", "let that machine say it in a message"
            case x.Pending(name=name):
                yield place, f"{what} looks at messages on their way (`pending({name})`)", "wait for the message"
            case x.Running() | x.Reachable() | x.Byzantine():
                yield place, f"{what} asks who is up, which nobody can know", "use a timer, or ask a policy"
