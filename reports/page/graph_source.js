// A source of positions for the stepper: a graph that stands in the page.

// graph: {firsts: [[key, number]], initial, states: [{control, data, channels, now, choices: [..., to]}]}
function graphSource(system, graph) {
  const whole = (i) => {
    const { initial } = graph.initial, state = graph.states[i];
    return { control: { ...initial.control, ...state.control }, data: { ...initial.data, ...state.data }, channels: state.channels, now: state.now };
  };
  const differing = (after, before) => Object.fromEntries(Object.entries(after).filter(([name, value]) => before[name] !== value));
  return {
    system,
    async at(wanted, since) {
      const first = graph.firsts.find(([key]) => key === wanted[0]) ?? graph.firsts[0];
      let [key, at] = first, lost = wanted.length && key !== wanted[0] ? 0 : null, broken = [];
      const trail = [key], entries = [{ initial: whole(at) }];
      for (const next of lost === null ? wanted.slice(1) : []) {
        const choice = graph.states[at].choices.find((one) => one.key === next);
        if (!choice) {
          lost = trail.length;
          break;
        }
        const before = whole(at);
        at = choice.to;
        const after = whole(at);
        trail.push(next);
        broken = choice.broken;
        entries.push({ title: choice.title, rows: choice.rows, transition: choice.transition,
          control: differing(after.control, before.control), data: differing(after.data, before.data), channels: after.channels, now: after.now });
      }
      const state = graph.states[at];
      const names = new Set(broken.map((claim) => claim.name));
      return { trail, lost, since, entries: entries.slice(since), cell: state.cell, left: {}, faults: [], outside: state.outside, mistake: state.mistake,
        choices: state.choices, claims: [...state.claims.filter((claim) => !names.has(claim.name)), ...broken] };
    },
  };
}

// The section of a report in which its system is stepped through.
function steppingSection(data, verdicts) {
  const standing = h("div");
  const system = { ...data, statuses: data.graph.statuses };
  const walk = stepper(graphSource(system, data.graph), { onmove: (position) =>
    standing.replaceChildren(...standingsTable(system, position, verdicts, "none", null).filter(Boolean)) });
  walk.go([]);
  return [h("p", { class: "doc" }, prose("Every state and step of this system without faults is in this page: take any way through it. `leasehold serve` steps through any system, with faults.")),
    walk.element, h("h3", null, "Properties here"), standing];
}
