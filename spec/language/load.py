"""A folder to a System: the one way in.

Four passes, each over everything, so that all errors of a system are reported together: read/files.py reads,
declare/declare.py collects names, declare/build.py types expressions, check/lint.py asks whether the machines make
sense. What rests on typed machines (refinement, tasks that outlive their state, migrations) is built in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path

from leasehold.spec.language import expression as x
from leasehold.spec.language import model as m
from leasehold.spec.language.check.lint import lint
from leasehold.spec.language.constant import Constant
from leasehold.spec.language.declare.build_claims import ClaimBuilder
from leasehold.spec.language.declare.build_refinement import refinement
from leasehold.spec.language.declare.channel_kind import KindText, NamedKind, kind_text, named_kinds
from leasehold.spec.language.declare.declare import Declarer, doc_of, text_of
from leasehold.spec.language.declare.migrations import Migrations
from leasehold.spec.language.diagnostics import (
    NOWHERE,
    Diagnostic,
    DiscardingSink,
    Place,
    Sink,
    SpecError,
    a,
    near_miss,
)
from leasehold.spec.language.expectation import Expectation
from leasehold.spec.language.lower import accepting, outlive
from leasehold.spec.language.lower.captures import with_captures
from leasehold.spec.language.lower.others import with_others
from leasehold.spec.language.read.files import Gatherer, SpecFiles, as_mapping, entries, unreadable
from leasehold.spec.language.read.shared import with_shared
from leasehold.spec.language.read.source import YamlNode
from leasehold.spec.language.types import BOOL, Bool, Enum, Int, Value, show
from leasehold.spec.language.typing.names import Scope
from leasehold.spec.language.typing.parse import optional, parse

SHIPPED = (
    "lease",
    "two_phase_commit",
    "three_phase_commit",
    "three_phase_commit_termination",
    "contention",
    "delegation",
    "group",
    "grace_period",
    "agent",
)


def shipped_folder(name: str) -> Path:
    """The folder of a system that comes with Leasehold."""
    return Path(str(resources.files("leasehold.spec"))) / "systems" / name


def find(name_or_folder: str | Path) -> tuple[Path, str]:
    """The folder of a system and the words to show for it; a shipped system's name wins over a folder's.

    Raises:
        SpecError: LH703, when there is neither.
    """
    text = str(name_or_folder)
    if text in SHIPPED:
        return shipped_folder(text), text
    folder = Path(name_or_folder)
    try:
        if folder.is_dir():
            return folder, text.rstrip("/") or "/"
        if folder.name == "system.yaml" and folder.is_file():
            return folder.parent, str(folder.parent)
    except (OSError, ValueError):
        pass
    sink, shown = Sink(), text if len(text) <= 80 else text[:77] + "..."
    near = near_miss(text, [*SHIPPED, *_beside(folder)])
    sink.error("unknown_system", NOWHERE, near=near, word=shown, known=SHIPPED)
    raise SpecError(sink.found)


def _beside(folder: Path) -> list[str]:
    """The folders of systems beside the place where one was looked for."""
    try:
        return [str(path.parent) for path in folder.parent.glob("*/system.yaml")]
    except (OSError, ValueError):
        return []


def load(
    name_or_folder: str | Path,
    settings: Mapping[str, str | int | bool] | None = None,
    more: Sequence[Path] = (),
) -> m.System:
    """Reads, resolves and checks a system.

    Args:
        name_or_folder: a shipped system's name (`lease`) or a folder that holds system.yaml.
        settings: values for constants, as `--set NAME=VALUE` gives them.
        more: files with properties besides those of the folder, of the form of invariants.yaml. They are no part of the
            specification: its digest does not depend on them.

    Raises:
        SpecError: the specification or a setting is wrong. It carries every finding of all files; while a file cannot
            be read, or is not of the shape that it must have, the findings are about that. No other error is raised for
            any content of the files.
    """
    return load_files(name_or_folder, settings or {}, (), more)


@dataclass(frozen=True)
class Reading:
    """All that comes of reading a system, right or wrong.

    Attributes:
        files: its trees, as far as they can be read.
        system: the model, where there are errors without what is wrong; None where a tree is missing.
        findings: errors and warnings.
    """

    files: SpecFiles
    system: m.System | None
    findings: tuple[Diagnostic, ...]


def read(folder: Path) -> Reading:
    """Reads a system for its writer, who wants to know what is there while something is wrong."""
    sink = Sink()
    gatherer = Gatherer(folder, str(folder), sink)
    try:
        system, findings = _load(gatherer.gather(), sink, {}, (folder,))
        return Reading(gatherer.files, system, tuple(findings.found))
    except SpecError as error:
        return Reading(gatherer.files, None, error.diagnostics)


def load_files(
    name_or_folder: str | Path,
    settings: Mapping[str, str | int | bool],
    trail: tuple[Path, ...] = (),
    more: Sequence[Path] = (),
    decided: bool = True,
) -> m.System:
    """Loads a system.

    Args:
        name_or_folder: as `load` takes it.
        settings: likewise.
        trail: the folders of those that refine it.
        more: as `load` takes it.
        decided: its properties are to be decided, so that limits of checkers count.

    Raises:
        SpecError: as `load`.
    """
    folder, shown = find(name_or_folder)
    sink = Sink()
    if any(folder.resolve() == earlier.resolve() for earlier in trail):
        sink.error("refines_cycle", NOWHERE, trace=" -> ".join(map(str, (*trail, folder))))
        raise SpecError(sink.found)
    files = Gatherer(folder, shown, sink, more).gather()
    files.decided = decided
    system, findings = _load(files, sink, {k: _word(v) for k, v in settings.items()}, (*trail, folder))
    findings.raise_errors()
    assert system is not None
    return system


def _load(
    files: SpecFiles, sink: Sink, given: Mapping[str, str], trail: tuple[Path, ...]
) -> tuple[m.System | None, Sink]:
    """The model of a system's trees, and all that is found in them, with what was found in reading.

    Args:
        files: its trees.
        sink: what was found in reading.
        given: values for constants.
        trail: its folder, behind those that refine it.

    Raises:
        SpecError: a tree is missing, or a value that was given is wrong.
    """
    if files.system is None or any(unreadable(d.code) for d in sink.errors):
        raise SpecError(sink.found)
    files.roles = {name: with_shared(name, node, sink) for name, node in files.roles.items()}

    def built(values: Mapping[str, str], excused: Mapping[tuple[str, Place], str]) -> tuple[m.System | None, Sink]:
        fresh = Sink([*sink.found], {*sink.seen}, excused)
        return _build(files, values, fresh, trail), fresh

    system, findings = built(given, {})
    if any(d.depends for d in findings.errors):
        excused = _of_some_values(files, given, findings, lambda values: built(values, {})[1])
        system, findings = built(given, excused) if excused else (system, findings)
    if given and findings.errors:
        raise SpecError(_blamed_on_values(given, findings.found, built({}, {})[1].found))
    return system, findings


def _blamed_on_values(
    given: Mapping[str, str], findings: Sequence[Diagnostic], declared: Sequence[Diagnostic]
) -> list[Diagnostic]:
    """The findings with values that were given; the errors that declared values do not earn name them.

    Such a value has no system: too few machines for one that is named, or bounds that leave nothing between them.
    """
    values = ", ".join(f"{name} = {value}" for name, value in given.items())
    known = {(d.code, d.place) for d in declared}

    def by_values(d: Diagnostic) -> bool:
        return d.severity == "error" and d.code not in ("LH701", "LH702") and (d.code, d.place) not in known

    return [replace(d, what=f"with {values}: {d.what}") if by_values(d) else d for d in findings]


MOST_VALUES = 24  # with which it is tried again whether an error depends on constants


def _of_some_values(
    files: SpecFiles, given: Mapping[str, str], findings: Sink, tried: Callable[[Mapping[str, str]], Sink]
) -> dict[tuple[str, Place], str]:
    """The errors that other values of constants do not earn, each with the values that earn it.

    A specification is legal or not whatever the values of its constants: what is wrong with some of them is said of a
    run with these, and refuses nothing. One constant at a time has another value.
    """
    declarer = Declarer(files, given, DiscardingSink())
    constants = declarer.declare().constants
    mistakes = {(d.code, d.place): d for d in findings.errors if d.depends}
    blamed: dict[tuple[str, Place], list[str]] = {}
    depends = sorted({name for d in mistakes.values() for name in d.depends} & constants.keys())
    others = [(constants[name], value) for name in depends for value in _other_values(constants[name])]
    for constant, value in others[:MOST_VALUES]:
        errors = tried({**given, constant.name: value}).errors
        here = {(d.code, d.place) for d in errors}
        if not here <= {(d.code, d.place) for d in findings.errors}:
            continue  # a value with which nothing can be said of it
        for key, d in mistakes.items():
            if key not in here and constant.name in d.depends and constant.name not in blamed.get(key, []):
                blamed.setdefault(key, []).append(constant.name)
    shown = {name: f"{name} = {show(constants[name].type, constants[name].value)}" for name in depends}
    return {key: ", ".join(shown[name] for name in names) for key, names in blamed.items()}


def _other_values(constant: Constant) -> list[str]:
    """Values that a constant may have besides its own: all of a few, or numbers near it."""
    match constant.type:
        case Bool():
            return [_word(not constant.value)]
        case Enum(members=members):
            return [word for word in members if word != constant.value]
        case Int(low=low, high=high) if isinstance(constant.value, int):
            near = dict.fromkeys([constant.value + 1, constant.value - 1, 2, 3, *([] if low is None else [low])])
            return [
                str(v)
                for v in near
                if v != constant.value and (low is None or v >= low) and (high is None or v <= high)
            ]
    return []


def _word(value: str | int | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _build(files: SpecFiles, settings: Mapping[str, str], sink: Sink, trail: tuple[Path, ...]) -> m.System | None:
    declarer = Declarer(files, settings, sink)
    declared = declarer.declare()
    if any(d.code == "LH113" for d in sink.errors):
        return None
    builder = _SystemBuilder(files, declarer, declared, sink)
    messages = builder.messages()
    roles = {name: builder.role(name, node) for name, node in files.roles.items()}
    assert files.system is not None
    if sink.errors and (not roles or any(not r.states for r in roles.values())):
        return None
    draft = m.System(
        name=text_of(files.system, "system"),
        doc=doc_of(files.system),
        constants=declared.constants,
        types=declared.names.types,
        roles=roles,
        messages=messages,
        channels=builder.channels(),
        clock=builder.clock(),
        environment=builder.environment(),
        initially=builder.single("initially"),
        constraint=builder.single("constraint"),
        properties=builder.properties(),
        ends=builder.ends(),
        lemmas=builder.lemmas(),
        product=builder.product(roles),
        actors=builder.actors(roles),
        expectations=(),
        warnings=(),
        digest=files.digest(),
        defaults=declarer.defaults,
        definitions=declared.names.definitions,
        faults=builder.faults(),
        standing=text_of(files.system, "standing") == "true",
        runs=builder.runs(roles, messages),
        shared=builder.shared(),
        counting=frozenset(declarer.counting),
        bounding=frozenset(declarer.bounding),
        loaded_with={reader: frozenset(names) for reader, names in declarer.loaded_with.items()},
    )
    channels = draft.channels.values()
    draft = replace(draft, roles={name: with_captures(role, channels) for name, role in roles.items()})
    draft = with_others(draft)
    refines = refinement(builder, draft, trail[-1], lambda place, given: load_files(place, given, trail))
    draft = replace(draft, refines=refines)
    for role in draft.roles.values():
        outlive.check_outlives(role, builder.reasons, sink)
    lint(draft, sink, builder.reasons)  # of what was written: a state that remembers would only repeat what is found
    draft = replace(draft, roles={name: outlive.with_remembering_states(role) for name, role in draft.roles.items()})
    draft = accepting.with_meanings(draft, sink)
    expectations = builder.expectations(draft)
    migrations = Migrations(draft.roles, declarer, sink).read(files.migrations)
    warnings = tuple(d for d in sink.found if d.severity == "warning")
    return replace(draft, expectations=expectations, migrations=migrations, warnings=warnings)


class _SystemBuilder(ClaimBuilder):
    """The second pass over system.yaml and expected.yaml, too."""

    def single(self, key: str) -> x.Expression | None:
        return optional(self.files.single.get(key), self.world, self.sink)

    def channels(self) -> dict[str, m.Channel]:
        channels = {}
        for name, place, node in entries(self.files.sections["channels"]):
            sender, receiver = self._role(node.get("from")), self._role(node.get("to"))
            kind_node = node.get("kind")
            kinds, capacity = self._kind(kind_node) if kind_node is not None else ((), None)
            budgets = {f: self._budget(node.get(f)) for f in m.CHANNEL_FAULTS}
            if sender and receiver and kinds:
                channels[name] = m.Channel(
                    name,
                    sender,
                    receiver,
                    self.names.channels[name],
                    kinds[0],
                    capacity,
                    self._paired(node, sender, receiver),
                    budgets["lose"],
                    budgets["duplicate"],
                    budgets["reorder"],
                    doc_of(node),
                    place,
                    " ".join(text_of(node, "unbounded").split()),
                    kinds,
                    "lost" if text_of(node, "on_crash") == "lost" else "kept",
                )
        return channels

    def _kind(self, node: YamlNode) -> tuple[tuple[m.ChannelKind, ...], int | None]:
        """The kinds that a channel may have, its own first, and the capacity of that; none if the text is wrong."""
        text = kind_text(node, self.sink)
        if text is None:
            return (), None
        named = list(named_kinds(text))
        kinds = [self._known_kind(case, word) for case in named for word in self.declarer.kinds(case)]
        words = {case: self._word_of(case) for case in named}
        capacities = {case: self.declarer.constant(case.capacity) for case in named if case.capacity is not None}
        chosen = self._chosen(text)
        if chosen is None or None in kinds:
            return (), None
        capacity = capacities.get(chosen)
        if capacity is not None and capacity < 1:
            self.sink.error("no_capacity", chosen.node.place, capacity=capacity)
        possible = [kind for kind in m.CHANNEL_KINDS if kind in kinds]
        return tuple(sorted(possible, key=lambda kind: kind != words[chosen])), capacity

    def _known_kind(self, case: NamedKind, word: str) -> m.ChannelKind | None:
        """The kind that has this word, which may be a value of the constant that the text names."""
        kind = next((kind for kind in m.CHANNEL_KINDS if kind == word), None)
        if kind is not None and (case.capacity is None or kind not in m.CHANNEL_KINDS_WITHOUT_CAPACITY):
            return kind
        near = near_miss(word, m.CHANNEL_KINDS)
        if word == case.word:
            self.sink.error("unknown_channel_kind", case.node.place, near=near, kind=case.node.text[:40])
        else:
            self.sink.error("constant_of_no_kinds", case.node.place, near=near, constant=case.word, kind=word)
        return None

    def _word_of(self, case: NamedKind) -> Value | None:
        """The word of a kind: the text's own, or the value of the constant that it names."""
        constant = self.declarer.constants.get(case.word)
        if constant is None or not isinstance(constant.type, Enum):
            return case.word
        return self.declarer.constant(YamlNode("text", case.node.place, case.word), constant.type, bounds=True)

    def _chosen(self, text: KindText) -> NamedKind | None:
        """The kind that the conditions choose; None where one of them is wrong. All of them are read."""
        if isinstance(text, NamedKind):
            return text
        # The machines' records and the prover's variables depend on it, so it counts among what bounds the model.
        holds = self.declarer.constant(text.condition, BOOL, bounds=True)
        then, otherwise = self._chosen(text.then), self._chosen(text.otherwise)
        return None if holds is None or then is None or otherwise is None else then if holds else otherwise

    def _paired(self, node: YamlNode, sender: str, receiver: str) -> bool:
        pairs = node.get("pairs")
        if pairs is None or pairs.text == "every":
            return False
        counts = [self.names.roles[r].instance.count for r in (sender, receiver)]
        if pairs.text != "same":
            self.sink.error("unknown_pairs", pairs.place, pairs=pairs.text[:40])
        elif counts[0] != counts[1]:
            numbers = {"senders": str(counts[0]), "receivers": str(counts[1])}
            self.sink.error("unequal_pairs", pairs.place, sender=sender, receiver=receiver, **numbers)
        return True

    def _budget(self, node: YamlNode | None) -> m.ChannelBudget:
        if node is None:
            return 0
        if node.text == "any":
            return "any"
        value = self.declarer.constant(node, bounds=True, reader="exploring")
        if value is not None and value < 0:
            self.sink.error("negative_budget", node.place, value=value)
        return int(value or 0)

    def clock(self) -> m.Clock | None:
        node = self.files.single.get("clock")
        horizon = node.get("horizon") if node is not None else None
        if node is None or horizon is None:
            return None
        value = self.declarer.constant(horizon, reader="exploring")
        timers = text_of(node, "timers") or "prompt"
        if timers not in ("prompt", "late"):
            self.sink.error("unknown_timers", (node.get("timers") or node).place, timers=timers[:40])
        if value is not None and value < 0:
            self.sink.error("negative_horizon", horizon.place, value=value)
        return m.Clock(int(value or 0), timers == "late", node.place)

    def environment(self) -> dict[str, m.Outside]:
        events = {}
        for name, place, node in entries(self.files.sections["environment"]):
            role = self._role(node.get("to"))
            if role is None:
                continue
            event_node = node.get("event")
            event = event_node.text if event_node is not None else name
            where = event_node.place if event_node is not None else place
            local = as_mapping(as_mapping(self.files.roles.get(role)).get("events"))
            if local.get(event) is None:
                known = [e for e, _, _ in local.pairs()]
                self.sink.unknown("unknown_local_event", where, event, known, role=a(role))
                continue
            scope = Scope(
                self.names,
                arguments=self._event_scope(role, event).arguments,
                clock=self.timed,
                outside=True,
            ).bind(it=self.names.roles[role].instance)
            guard = optional(node.get("when"), scope, self.sink)
            fair = {"true": m.Fair.WEAK, "strong": m.Fair.STRONG}.get(text_of(node, "fair"), m.Fair.NO)
            each = self._fair_for_each(name, node, fair, [*(scope.arguments or ())])
            enforced = text_of(node, "enforced") != "false"
            events[name] = m.Outside(name, role, event, guard, fair, doc_of(node), place, enforced, each)
        return events

    def _fair_for_each(self, name: str, node: YamlNode, fair: m.Fair, fields: Sequence[str]) -> tuple[str, ...]:
        """The fields of an action's event for each of whose values it is fair by itself."""
        each = node.get("fair_for_each")
        if each is None:
            return ()
        if fair is m.Fair.NO:
            self.sink.error("fair_for_each_unfair", each.place, name=name)
        for field in each:
            if field.text not in fields:
                self.sink.unknown("unknown_fair_field", field.place, field.text, fields, name=name)
        return tuple(field.text for field in each if field.text in fields)

    def product(self, roles: Mapping[str, m.Role]) -> tuple[str, ...]:
        node = self.files.single.get("product")
        if node is None:
            return tuple(r.name for r in roles.values() if r.parent is None)
        return tuple(n.text for n in node if self._role(n) is not None)

    def actors(self, roles: Mapping[str, m.Role]) -> dict[str, tuple[str, ...]]:
        actors: dict[str, tuple[str, ...]] = {}
        playing: dict[str, str] = {}
        places: dict[str, Place] = {}
        for name, place, node in entries(self.files.sections["actors"]):
            actors[name] = tuple(n.text for n in node if self._role(n) is not None)
            if not [*node]:
                self.sink.error("actor_plays_nothing", place, name=name)
            if (
                name in self.names.roles and name not in actors[name]
            ):  # a role that nobody plays is an actor of that name
                self.sink.error("actor_is_role", place, name=name)
            for role in node:
                if role.text in playing:
                    self.sink.error("played_twice", role.place, role=role.text, name=playing[role.text])
                playing[role.text], places[role.text] = name, role.place
        for name, place in places.items():
            parent = roles[name].parent if name in roles else None
            if parent is not None and playing.get(parent) != playing[name]:
                self.sink.error("plays_without_parent", place, role=name, parent=parent, name=playing[name])
        return actors

    def runs(self, roles: Mapping[str, m.Role], messages: Mapping[str, m.Message]) -> m.Runs:
        """Returns who begins runs and who brings machines into others' runs, as declared, or as the machines show."""
        first = {r.name: {e for s in r.initial for e in s.on} for r in roles.values()}
        outside = [r.name for r in roles.values() if not r.parent and not first[r.name].isdisjoint(r.events)]
        bringing = {x.name: x for x in messages.values() if x.name in first.get(x.receiver, ())}
        node = self.files.single.get("runs")
        declared: dict[str, tuple[str, ...]] = {}
        for key in ("begun_by", "relayed_by"):
            if node is not None and (listed := node.get(key)) is not None:
                declared[key] = tuple(n.text for n in listed if self._role(n) is not None)
        begun_by = declared.get("begun_by", tuple(outside))
        relayed_by = declared.get("relayed_by", tuple(dict.fromkeys(x.sender for x in bringing.values())))
        if node is not None:
            system = self.files.system
            if system is not None and text_of(system, "standing") == "true":
                self.sink.error("standing_runs", node.place, system=text_of(system, "system"))
            for n in node.get("begun_by") or ():
                if n.text in roles and n.text not in outside:
                    self.sink.error("begins_nothing", n.place, role=n.text)
            for message in bringing.values():
                if message.sender not in (*begun_by, *relayed_by):
                    ends = {"sender": message.sender, "receiver": message.receiver}
                    self.sink.error("brings_in", node.place, message=message.name, **ends)
        return m.Runs(begun_by, relayed_by)

    def faults(self) -> m.Faults:
        node = self.files.single.get("faults")
        if node is None or node.kind != "mapping":
            return m.Faults()
        settings = {}
        for name, place, value in node.pairs_of("set"):
            self._exists(name, place, self.declarer.defaults, "constant")
            settings[name] = value.text
        nodes = {}
        actors = list(self.files.sections["actors"])
        for name, place, members in node.pairs_of("nodes"):
            if name in actors or name in self.names.roles:
                self.sink.error("node_is_actor", place, name=name)
            for member in members:
                self._exists(member.text, member.place, actors, "actor")
            nodes[name] = tuple(member.text for member in members)
        modes = {n: parse(e, self.world, self.sink, BOOL) for n, _, e in node.pairs_of("modes")}
        return m.Faults(text_of(node, "budget"), settings, modes, nodes, text_of(node, "check"), node.place)

    def expectations(self, system: m.System) -> tuple[Expectation, ...]:
        node = as_mapping(self.files.expected)
        known = {t.name for r in system.roles.values() for t in r.transitions()}
        claims = {*system.properties, "deadlock_free", "refines", *(e.name for e in system.ends or ())}
        shared = {
            "unvisited": self._explanations(node.get("unvisited"), known, "transition"),
            "vacuous": self._explanations(node.get("vacuous"), claims, "property"),
        }
        patterns = shared["unvisited"]
        shared["unvisited"] = {t: patterns[p] for p in patterns for t in sorted(known) if fnmatchcase(t, p)}
        expectations = []
        for name, place, run in node.pairs_of("runs"):
            settings: dict[str, Value] = {}
            for constant, where, value in run.pairs_of("set"):
                self._exists(constant, where, system.constants, "constant")
                settings[constant] = value.text
            numbers = {k: int(text_of(run, k)) for k in _COUNTED if run.get(k) is not None}
            unvisited = self._explanations(run.get("unvisited"), known, "transition")
            broad = {t: unvisited[p] for p in unvisited if "*" in p for t in sorted(known) if fnmatchcase(t, p)}
            expectations.append(
                Expectation(
                    name,
                    settings,
                    numbers,
                    self._explanations(run.get("violated"), claims, "property"),
                    {t: why for t, why in unvisited.items() if "*" not in t},
                    self._explanations(run.get("vacuous"), claims, "property"),
                    {**shared["unvisited"], **broad},
                    shared["vacuous"],
                    text_of(run, "slow") == "true",
                    doc_of(run),
                    place,
                )
            )
        return tuple(expectations)

    def _explanations(self, node: YamlNode | None, known: Iterable[str], kind: str) -> dict[str, str]:
        names = set(known)
        for name, place, _ in as_mapping(node).pairs():
            self._exists(name, place, names, kind)
        return {name: " ".join(value.text.split()) for name, _, value in as_mapping(node).pairs()}

    def _exists(self, name: str, place: Place, known: Iterable[str], kind: str) -> None:
        names = list(known)
        if name not in names and not ("*" in name and any(fnmatchcase(n, name) for n in names)):
            self.sink.unknown("unknown_expected", place, name, names, what=kind)


_COUNTED = ("distinct", "generated", "edges", "depth", "initial", "product", "reachable")
