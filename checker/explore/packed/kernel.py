"""One search of the engine's C part: its functions as methods, and the numbers in which it speaks."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from ctypes import c_uint8, c_uint32, c_uint64, sizeof
from functools import wraps
from typing import Any, TypeAlias, TypeVar

from leasehold.checker.explore.packed.fields import BitField
from leasehold.checker.explore.packed.library import library

# Probes of steps, the programs that say yes for them, and whether the step changes nothing that these ask for.
StepClaims: TypeAlias = tuple[tuple[int, int, bool], ...]


Call: TypeAlias = tuple[str, tuple[Any, ...]]  # a method of the kernel, and its arguments
MOST_CALLS = 20_000  # that a kernel remembers
_Method = TypeVar("_Method", bound=Callable[..., Any])


def _remembered(method: _Method) -> _Method:
    """A method that tells the kernel about the model, for another one to be told the same."""
    name = method.__name__

    @wraps(method)
    def call(self: Kernel, *arguments: Any) -> Any:
        result = method(self, *arguments)
        if self.calls is not None:
            self.calls.append((name, arguments))
            if len(self.calls) > MOST_CALLS:
                self.calls = None
        return result

    return call  # type: ignore[return-value]


class Kernel:
    """One search of the C part. Methods are its functions, which the files in engine/ describe.

    Attributes:
        calls: what it was told about the model; None: too much to be remembered.

    Raises:
        MemoryError: there is no more memory.
    """

    def __init__(self, words: int) -> None:
        self._at: Any = None
        self.calls: list[Call] | None = []
        self.c = library(words)
        self.words = self.c.words  # at least as many as asked for
        self._at = self.c.engine_new()
        if not self._at:
            raise MemoryError
        self._tests = self._probes = self._changes = self._leaves = self._kinds = 0
        self._claims: dict[StepClaims, int] = {(): 0}

    def learn(self, calls: Iterable[Call]) -> None:
        """Is told what another one was."""
        for name, arguments in calls:
            getattr(self, name)(*arguments)

    def close(self) -> None:
        """Gives the memory back."""
        if self._at:
            self.c.engine_free(self._at)
            self._at = None

    def __del__(self) -> None:
        self.close()

    @_remembered
    def tree(self) -> int:
        return int(self.c.tree_new(self._at))

    @_remembered
    def hang(self, tree: int, codes: dict[int, int], answer: int) -> None:
        done = self.c.hang(self._at, tree, len(codes), _u32(codes), _u32(codes.values()), answer)
        if done == 2:
            raise AssertionError("two runs that read the same values read different ones next")
        _had(done)

    @_remembered
    def test(self, tree: int, yes: int, no: int) -> int:
        _had(self.c.add_test(self._at, tree, yes, no))
        self._tests += 1
        return self._tests - 1

    @_remembered
    def probe(self) -> int:
        _had(self.c.add_probe(self._at))
        self._probes += 1
        return self._probes - 1

    def silence(self, probe: int) -> None:
        self.c.silence(self._at, probe)

    @_remembered
    def change(self, writes: Any, cost: int, fault: bool, tag: int, claims: StepClaims) -> int:
        asked = self._claims.get(claims)
        if asked is None:
            asked = self._claims[claims] = len(self._claims)  # from 1 on
            probes, programs, quiet = zip(*claims, strict=True)
            numbers = array("i", programs).tobytes()
            _had(self.c.add_claims(self._at, len(claims), _u32(probes), numbers, _u32(quiet)))
        atoms, codes = _u32([a for a, _ in writes]), _u32([c for _, c in writes])
        _had(self.c.add_change(self._at, len(writes), atoms, codes, cost, fault, tag, asked))
        self._changes += 1
        return self._changes - 1

    @_remembered
    def leaf(self, changes: list[int], fault: bool) -> int:
        _had(self.c.add_leaf(self._at, len(changes), _u32(changes), fault))
        self._leaves += 1
        return self._leaves - 1

    @_remembered
    def watch(self, of: int, probe: int, program: int) -> None:
        _had(self.c.watch(self._at, of, probe, program))

    @_remembered
    def bounds(self, program: int) -> None:
        self.c.set_bounds(self._at, program)

    @_remembered
    def parts(self, parts: int, kinds: int, graph: bool, brief: bool, roots: list[int]) -> None:
        self._kinds = kinds
        _had(self.c.set_parts(self._at, parts, kinds, graph, brief, _u32(roots)))

    @_remembered
    def gate(self, part: int, program: int) -> None:
        """A part has steps only where a program says yes."""
        self.c.set_gate(self._at, part, program)

    def threads(self, helpers: int, least: int) -> None:
        """Has `helpers` threads help where a level has at least `least` labels."""
        _had(self.c.threads(self._at, helpers, least))

    def alike(
        self, begin: bool, instances: int, parts: Sequence[Sequence[int]], ranks: Sequence[Sequence[int]]
    ) -> None:
        """A group of instances that are alike: by part of a slice, the atom of each instance, and the values' ranks."""
        atoms = _u32(atom for part in parts for atom in part)
        lengths, every = _u32(map(len, ranks)), _u32(rank for part in ranks for rank in part)
        _had(self.c.set_alike(self._at, begin, instances, len(parts), atoms, lengths, every))

    @_remembered
    def others(self, attributes: int, spots: Sequence[Sequence[int]], where: Sequence[int]) -> None:
        """The values that lie in no slice, as `set_others` has them."""
        about = _u32(number for spot in spots for number in spot)
        _had(self.c.set_others(self._at, attributes, len(spots), about, len(where), _u32(where)))

    def value(
        self, attribute: int, about: int, label: int, skeleton: int, names: Sequence[int], kinds: Sequence[int]
    ) -> None:
        """The next value of an attribute, as `add_value` has it."""
        at, of = self._at, len(names)
        _had(self.c.add_value(at, attribute, about, label, skeleton, of, bytes(names), bytes(kinds)))

    def labels(self, attribute: int, labels: Sequence[int]) -> None:
        self.c.set_labels(self._at, attribute, array("Q", labels).tobytes())

    def moved_to(self, code: int) -> None:
        """The code of the value that was asked for."""
        _had(self.c.moved_to(self._at, code))

    def asked_order(self) -> list[int]:
        """The new number of each instance in the value that is asked for."""
        return list(self.c.asked_order(self._at)[:MOST_INSTANCES])

    def stills(self, begin: int, out: Any) -> bool:
        """Counts for states from `begin` on the permutations that change nothing; False: it is to be asked again."""
        return bool(self.c.stills(self._at, begin, begin + len(out), out.ctypes.data))

    def limits(self, states: int | None, depth: int | None, labels: int | None = None) -> None:
        most = (1 << 64) - 1
        self.c.set_limits(self._at, *(most if n is None else n for n in (states, depth, labels)))

    def first(self, words: list[int], left: int) -> bool:
        """Adds a first state; whether it is a new one."""
        return bool(self.c.add_first(self._at, (c_uint64 * self.words)(*words), left) != NONE)

    def check_first(self) -> int:
        return int(self.c.check_first(self._at))

    def search(self, seconds: float) -> int:
        return int(self.c.search(self._at, seconds))

    @_remembered
    def lay_out(self, places: Sequence[BitField]) -> None:
        rows = [(p.word, p.shift, p.bits) for p in places]
        columns = ((c_uint8 * len(places))(*column) for column in zip(*rows, strict=True))
        _had(self.c.lay_out(self._at, len(places), *columns))

    def figure(self, which: int) -> int:
        return int(self.c.figure(self._at, which))

    def asks(self, which: int) -> int:
        return int(self.c.asks(self._at, which))

    def asked_words(self) -> list[int]:
        return list(self.c.asked_words(self._at)[: self.words])

    def array(self, name: str) -> Any:
        """An array of what was found, where it lies: it is there until the search goes on."""
        size, kind = c_uint64(), ARRAYS[name]
        at = self.c.kept(self._at, LASTING.index(name), size)
        return (kind * (size.value // sizeof(kind))).from_address(at) if size.value else (kind * 0)()

    def rest(self, steps: bool) -> None:
        """Gives back what only a search that goes on needs; with `steps` these too, and no checkpoint can follow."""
        self.c.rest(self._at, steps)

    # Leaving off, and going on in another process

    def kept(self) -> dict[str, Any]:
        """The arrays of a search that pauses: valid until the search goes on."""
        return {name: self.array(name) for name in ARRAYS}

    def numbers(self) -> list[int]:
        """The numbers that are to be kept besides."""
        return [int(self.c.kept_number(self._at, which)) for which in range(NUMBERS)]

    def go_on(self, kept: MutableMapping[str, Any], numbers: Sequence[int]) -> None:
        """Goes on from what was kept, which is taken away, so that it is not there twice. All changes are known."""
        for which, name in enumerate(LASTING):
            some = kept.pop(name)
            if some.nbytes:
                _had(self.c.keep(self._at, which, some.ctypes.data, some.nbytes))
        for which, number in enumerate(numbers):
            self.c.keep_number(self._at, which, number)
        _had(self.c.go_on(self._at))

    def on_disk(self, which: str, file: int) -> None:
        """Keeps one of these arrays, which is empty as yet, in an open file; the search closes it."""
        _had(self.c.on_disk(self._at, LASTING.index(which), file))

    def mark(self, program: int, into: bytearray) -> bool:
        """Marks the states for which a program says yes; False: an answer is not known, and it is to be asked again."""
        return bool(self.c.mark(self._at, program, (c_uint8 * len(into)).from_buffer(into)))

    def survey(self, atoms: list[int]) -> tuple[Sequence[int], Sequence[int]]:
        """The combinations of these atoms' values: the first state of each, and how many it has."""
        size = int(self.c.survey(self._at, len(atoms), _u32(atoms)))
        _had(size != NONE)
        return self._surveyed(CELL_FIRST, size), self._surveyed(CELL_STATES, size)

    def _surveyed(self, which: int, size: int) -> Sequence[int]:
        return (c_uint32 * size).from_address(self.c.found(self._at, which)) if size else ()  # type: ignore[return-value]

    def survey_edges(self) -> list[tuple[int, int, int]] | None:
        """The steps between the combinations that were surveyed: from, to, tag of the change.

        None where some steps are not known, and it is to be asked again.
        """
        outcome = int(self.c.survey_edges(self._at))
        _had(outcome != NO_MEMORY)
        if outcome in (STEPS, CLAIM, MOVE):
            return None
        numbers = iter(self._surveyed(BETWEEN, 3 * self.figure(STEPS_BETWEEN)))
        return list(zip(numbers, numbers, numbers, strict=True))


NONE = 0xFFFFFFFF
_U32, _U64 = c_uint32, c_uint64
ARRAYS = {  # the arrays of a search, in the order of engine/found.h
    "states": _U64,
    "parents": _U32,
    "label_states": _U32,
    "label_next": _U32,
    "first_label": _U32,
    "last_label": _U32,
    "lefts": _U64,
    "begins": _U64,
    "targets": _U32,
    "edge_changes": _U32,
    "level_states": _U64,
    "level_labels": _U64,
    "uses": _U64,
    "cut_states": _U32,
    "cut_changes": _U32,
}
LASTING = tuple(ARRAYS)
NUMBERS = 7  # that `kept_number` has
# What `search` returns, what was asked about, and the positions of figures, answers and arrays in engine/.
DONE, STEPS, CLAIM, FIRED, FAULT, PAUSE, AT_STATES, AT_DEPTH, NO_MEMORY, MOVE = range(10)
OF_STATE, OF_STEP, OF_BOUNDS, OF_STUCK, OF_GATE = range(5)
COUNT, GENERATED, EDGES, CUT, SEARCHED, LABELS, DEPTH, LEVELS, KEPT_EDGES, MEMORY, STEPS_BETWEEN = range(11)
WHAT, PART, CLASS, TEST, PROBE, CHANGE, OF, LABEL, NUMBER, ATTRIBUTE, CODE = range(11)
MOST_INSTANCES = 64  # of all groups whose instances are alike
CELL_FIRST, CELL_STATES, BETWEEN = range(9, 12)


def _u32(values: Iterable[int]) -> bytes:
    """Numbers as an array of C; an array of ctypes takes longer to make."""
    return array("I", values).tobytes()


def _had(done: int) -> None:
    if not done:
        raise MemoryError
