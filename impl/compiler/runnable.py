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
            sink.error("channel_of_no_network", channel.place, channel=channel.name, kind=channel.kind)
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
            above = {"parent": parent.name, "grandparent": parent.parent}
            self.sink.error("second_parent", role.place, role=role.name, **above)
        for datum in role.data.values():
            if datum.any_initial:
                self.sink.error("any_first_value", datum.place, role=role.name, datum=datum.name)
        for transition in role.transitions():
            updated = [e for u in transition.updates for e in (u.value, u.key)]
            for e in (transition.guard, *updated):
                self._reads(e, transition.place, f"transition {transition.name}")
        for task in role.tasks.values():
            self._task(task)
            if isinstance(task, Send) and parent is not None:
                self.sink.error("subsidiary_sends", task.place, task=task.name, role=role.name, parent=parent.name)

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
                    self.sink.error("reads_another_machine", place, what=what, role=role)
                case x.Pending(name=name):
                    self.sink.error("reads_pending", place, what=what, name=name)
