"""What can run: machines that read their own record, the event and the clock, and talk by mailboxes.

An abstract specification may read other machines in its guards, or have channels that no network gives; it is explored
and proved like any other. Everything that stands in the way is found before anything is compiled.
"""

from __future__ import annotations

from leasehold.spec.language import expression as x
from leasehold.spec.language.diagnostics import Place, Sink, SpecError
from leasehold.spec.language.model import Call, Drive, Role, Send, System


class NotRunnable(SpecError):
    """A specification that can be explored, but cannot run. It carries every reason."""


def check(system: System) -> None:
    """Whether a system can run.

    Raises:
        NotRunnable: it cannot.
    """
    sink = Sink()
    for channel in system.channels.values():
        if channel.kind != "mailbox":
            sink.error(
                "LH801", channel.place, f"channel `{channel.name}` is a {channel.kind}, which no network keeps to",
                remedy="make it `kind: mailbox`: what sequence numbers make of any network",
            )  # fmt: skip
    for role in system.roles.values():
        _Checker(system, role, sink).check()
    if sink.errors:
        raise NotRunnable(sink.found)


class _Checker:
    """Looks at one role."""

    def __init__(self, system: System, role: Role, sink: Sink) -> None:
        self.system, self.role, self.sink = system, role, sink
        self.below = {r.name for r in system.roles.values() if r.parent == role.name}

    def check(self) -> None:
        role = self.role
        parent = self.system.roles[role.parent] if role.parent else None
        if parent is not None and parent.parent:
            words = f"`{role.name}` is subsidiary to `{parent.name}`, which is subsidiary itself"
            remedy = f"make it subsidiary to `{parent.parent}`, or join the two"
            self.sink.error("LH805", role.place, words, remedy=remedy)
        for datum in role.data.values():
            if datum.any_initial:
                words = f"`{role.name}.{datum.name}` may begin with any value"
                self.sink.error("LH804", datum.place, words, remedy="give it one: `initial: VALUE`")
        for transition in role.transitions():
            updated = [e for u in transition.updates for e in (u.value, u.key)]
            for e in (transition.guard, *updated):
                self._reads(e, transition.place, f"transition {transition.name}")
        for task in role.tasks.values():
            self._task(task)
            if isinstance(task, Send) and parent is not None:
                words = f"task `{task.name}` sends, and `{role.name}` is subsidiary"
                self.sink.error("LH805", task.place, words, remedy=f"let `{parent.name}` send it")

    def _task(self, task: Send | Call | Drive) -> None:
        what = f"task `{task.name}` of `{self.role.name}`"
        inside: list[x.Expression | None] = [task.when]
        if not isinstance(task, Call):
            inside += [task.only, *task.fields.values()]
        for e in inside:
            self._reads(e, task.place, what)
        for e in task.answers.values() if isinstance(task, Drive) else ():
            self._reads(e, task.place, what)

    def _reads(self, e: x.Expression | None, place: Place, what: str) -> None:
        for node in x.walk(e) if e is not None else ():
            match node:
                case x.Data(role=role, owner=owner) | x.State(role=role, owner=owner) if not (
                    role in self.below or owner is None or isinstance(owner, x.Self)
                ):
                    words = f"{what} reads a machine of `{role}`"
                    self.sink.error("LH802", place, words, remedy="let that machine say it in a message")
                case x.Pending(name=name):
                    words = f"{what} looks at messages on their way (`pending({name})`)"
                    self.sink.error("LH803", place, words, remedy="wait for the message")
