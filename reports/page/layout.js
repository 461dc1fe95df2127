// Layered drawing of a directed graph, after Sugiyama: edges mostly point downwards, labels have room of their own.
//
// 1. Edges that close a cycle are turned round while the layout is made.
// 2. Each node gets a layer: the longest way from a root, then pulled to where its edges are shortest; or the layers that
//    the caller gives. Where edges have labels, every second layer is theirs.
// 3. An edge over several layers becomes a chain of points; its label sits in the middle one, with its real size.
// 4. Sweeps down and up order each layer by the mean place of its neighbours, swapping neighbours while that saves
//    crossings; the best order seen wins.
// 5. Each layer is placed where the sum of squared distances to its neighbours is least, keeping its order and gaps: an
//    isotonic regression, solved exactly by pooling adjacent violators, layer after layer until nothing moves.
//
// All is deterministic: ties keep the order of the input.

// nodes: [{w, h, layer?}], edges: [{s, t, w, h, weight?}] with the label's size (0 without one), options: {roots, gap, rankGap}.
// Gives {width, height, nodes: [{x, y}], edges: [{d, x, y}]}: centres, a path, and the label's centre.
function layered(nodes, edges, options = {}) {
  const gap = options.gap ?? 28;
  const rankGap = options.rankGap ?? 18;
  const fixed = nodes.length > 0 && nodes.every((n) => Number.isInteger(n.layer));
  const labelled = edges.some((e) => e.w > 0);
  const stride = labelled ? 2 : 1;
  const turned = fixed
    ? edges.map((e) => nodes[e.t].layer < nodes[e.s].layer)
    : cycleEdges(nodes.length, edges, options.roots || []);
  const down = edges.map((e, i) => (turned[i] ? { s: e.t, t: e.s } : { s: e.s, t: e.t }));
  const rank = fixed ? nodes.map((n) => n.layer * stride) : ranks(nodes.length, down, stride);

  const items = nodes.map((n, i) => ({ w: n.w, h: n.h, rank: rank[i], real: true, up: [], down: [] }));
  const chains = down.map((e, i) => {
    const chain = [e.s];
    const middle = stride * Math.floor((rank[e.s] + rank[e.t]) / 2 / stride) + (labelled ? 1 : 0);
    const at = middle >= rank[e.t] ? middle - stride : middle;
    for (let r = rank[e.s] + 1; r < rank[e.t]; r++) {
      const holds = r === at && edges[i].w > 0;
      items.push({ w: holds ? edges[i].w : 2, h: holds ? edges[i].h : 0, rank: r, real: false, label: holds, up: [], down: [] });
      chain.push(items.length - 1);
    }
    chain.push(e.t);
    if (rank[e.s] !== rank[e.t]) {
      for (let k = 1; k < chain.length; k++) {
        const [a, b] = [chain[k - 1], chain[k]];
        const weight = (edges[i].weight || 1) * (items[a].real ? 1 : 3) * (items[b].real ? 1 : 3);
        items[a].down.push([b, weight]);
        items[b].up.push([a, weight]);
      }
    }
    return chain;
  });

  const layers = [];
  for (const [i, item] of items.entries()) (layers[item.rank] ||= []).push(i);
  for (let r = 0; r < layers.length; r++) layers[r] ||= [];
  order(items, layers, options.roots || []);
  place(items, layers, gap, chains);

  let y = 0;
  for (const layer of layers) {
    const height = Math.max(0, ...layer.map((i) => items[i].h));
    for (const i of layer) items[i].y = y + height / 2;
    for (const i of layer) items[i].band = [y, y + height];
    y += height + rankGap;
  }
  const left = Math.min(...items.map((i) => i.x - i.w / 2));
  for (const item of items) item.x -= left;
  const ports = spread(items, chains, down, rank);
  return {
    width: Math.max(0, ...items.map((i) => i.x + i.w / 2)),
    height: Math.max(0, y - rankGap),
    nodes: items.slice(0, nodes.length).map((i) => ({ x: i.x, y: i.y })),
    edges: chains.map((chain, e) => route(items, chain, ports[e], turned[e])),
  };
}

// Which edges lead back to a node that is still being visited, depth first from the roots.
function cycleEdges(size, edges, roots) {
  const out = Array.from({ length: size }, () => []);
  edges.forEach((e, i) => out[e.s].push(i));
  const seen = new Array(size).fill(0);
  const back = new Array(edges.length).fill(false);
  const visit = (node) => {
    seen[node] = 1;
    for (const i of out[node]) {
      if (seen[edges[i].t] === 1) back[i] = true;
      else if (seen[edges[i].t] === 0) visit(edges[i].t);
    }
    seen[node] = 2;
  };
  for (const node of [...roots, ...seen.keys()]) if (seen[node] === 0) visit(node);
  return back;
}

function ranks(size, edges, stride) {
  const into = Array.from({ length: size }, () => []);
  const out = Array.from({ length: size }, () => []);
  edges.forEach((e) => {
    into[e.t].push(e.s);
    out[e.s].push(e.t);
  });
  const rank = new Array(size).fill(0);
  const open = into.map((sources) => sources.length);
  const ready = [...rank.keys()].filter((n) => open[n] === 0);
  const sorted = [];
  while (ready.length) {
    const node = ready.shift();
    sorted.push(node);
    for (const t of out[node]) {
      rank[t] = Math.max(rank[t], rank[node] + stride);
      if (--open[t] === 0) ready.push(t);
    }
  }
  for (let pass = 0; pass < 4; pass++) {
    for (const node of pass % 2 ? sorted : [...sorted].reverse()) {
      if (!into[node].length) continue;
      const low = Math.max(...into[node].map((n) => rank[n] + stride));
      const high = Math.min(...out[node].map((n) => rank[n] - stride));
      if (out[node].length > into[node].length && Number.isFinite(high)) rank[node] = high;
      else if (out[node].length < into[node].length) rank[node] = low;
    }
  }
  return rank;
}

function crossings(items, upper, lower) {
  const position = new Map(lower.map((i, k) => [i, k]));
  const ends = [];
  for (const i of upper) ends.push(...items[i].down.map(([j]) => position.get(j)).sort((a, b) => a - b));
  // Counts inversions with a Fenwick tree.
  const tree = new Array(lower.length + 1).fill(0);
  let total = 0;
  for (let k = ends.length - 1; k >= 0; k--) {
    for (let i = ends[k]; i > 0; i -= i & -i) total += tree[i];
    for (let i = ends[k] + 1; i <= lower.length; i += i & -i) tree[i]++;
  }
  return total;
}

function order(items, layers, roots) {
  // First order: depth first from the roots, so that a chain starts as one column.
  const seen = new Set();
  const fresh = layers.map(() => []);
  const visit = (i) => {
    const stack = [i];
    while (stack.length) {
      const at = stack.pop();
      if (seen.has(at)) continue;
      seen.add(at);
      fresh[items[at].rank].push(at);
      for (const [j] of [...items[at].down].reverse()) stack.push(j);
    }
  };
  for (const i of [...roots, ...items.keys()]) visit(i);
  layers.forEach((_, r) => (layers[r] = fresh[r]));

  const total = () => layers.slice(1).reduce((sum, layer, r) => sum + crossings(items, layers[r], layer), 0);
  const sort = (layer, side, beside) => {
    const position = new Map(beside.map((i, k) => [i, k]));
    const mean = new Map(layer.map((i, k) => {
      const near = items[i][side];
      return [i, near.length ? near.reduce((sum, [j]) => sum + position.get(j), 0) / near.length : k];
    }));
    return [...layer].sort((a, b) => mean.get(a) - mean.get(b));
  };
  const swap = () => {
    for (let r = 0; r < layers.length; r++) {
      const around = () => (r > 0 ? crossings(items, layers[r - 1], layers[r]) : 0)
        + (r + 1 < layers.length ? crossings(items, layers[r], layers[r + 1]) : 0);
      let best = around();
      for (let k = 0; best > 0 && k + 1 < layers[r].length; k++) {
        const layer = layers[r];
        [layer[k], layer[k + 1]] = [layer[k + 1], layer[k]];
        const now = around();
        if (now < best) best = now;
        else [layer[k], layer[k + 1]] = [layer[k + 1], layer[k]];
      }
    }
  };
  let best = layers.map((layer) => [...layer]);
  let least = total();
  const small = items.length < 600;
  for (let sweep = 0; sweep < (small ? 24 : 10) && least > 0; sweep++) {
    if (sweep % 2 === 0) for (let r = 1; r < layers.length; r++) layers[r] = sort(layers[r], "up", layers[r - 1]);
    else for (let r = layers.length - 2; r >= 0; r--) layers[r] = sort(layers[r], "down", layers[r + 1]);
    if (small) swap();
    const now = total();
    if (now < least) {
      least = now;
      best = layers.map((layer) => [...layer]);
    }
  }
  best.forEach((layer, r) => (layers[r] = layer));
}

function place(items, layers, gap, chains) {
  const between = (a, b) => (items[a].w + items[b].w) / 2 + (items[a].real && items[b].real ? gap : gap * 0.6);
  for (const layer of layers) {
    let x = 0;
    layer.forEach((i, k) => {
      x += k ? between(layer[k - 1], i) : 0;
      items[i].x = x;
    });
    const middle = x / 2;
    for (const i of layer) items[i].x -= middle;
  }
  const settle = (layer, sides) => {
    const pools = [];
    let offset = 0;
    layer.forEach((i, k) => {
      offset += k ? between(layer[k - 1], i) : 0;
      let [sum, weight] = [0, 0];
      for (const side of sides) {
        for (const [j, w] of items[i][side]) {
          sum += w * items[j].x;
          weight += w;
        }
      }
      const wish = weight ? sum / weight : items[i].x;
      pools.push({ sum: (wish - offset) * (weight || 0.01), weight: weight || 0.01, members: [[i, offset]] });
      while (pools.length > 1) {
        const [a, b] = pools.slice(-2);
        if (a.sum / a.weight <= b.sum / b.weight) break;
        pools.splice(-2, 2, { sum: a.sum + b.sum, weight: a.weight + b.weight, members: [...a.members, ...b.members] });
      }
    });
    for (const pool of pools) for (const [i, at] of pool.members) items[i].x = pool.sum / pool.weight + at;
  };
  for (let pass = 0; pass < 12; pass++) {
    for (let r = 1; r < layers.length; r++) settle(layers[r], ["up"]);
    for (let r = layers.length - 2; r >= 0; r--) settle(layers[r], ["down"]);
  }
  for (let pass = 0; pass < 40; pass++) for (const layer of layers) settle(layer, ["up", "down"]);
  straighten(items, layers, chains, between);
}

// Gives each long edge as few bends as its neighbours allow: runs of its points that can share one x do so.
function straighten(items, layers, chains, between) {
  const neighbours = new Map();
  for (const layer of layers) layer.forEach((i, k) => neighbours.set(i, [layer[k - 1], layer[k + 1]]));
  const room = (i) => {
    const [left, right] = neighbours.get(i);
    return [left === undefined ? -Infinity : items[left].x + between(left, i), right === undefined ? Infinity : items[right].x - between(i, right)];
  };
  for (let pass = 0; pass < 3; pass++) {
    for (const chain of chains) {
      const points = chain.slice(1, -1);
      for (let from = 0; from < points.length;) {
        let [low, high] = room(points[from]);
        let to = from + 1;
        for (; to < points.length; to++) {
          const [l, h] = room(points[to]);
          if (Math.max(l, low) > Math.min(h, high)) break;
          [low, high] = [Math.max(l, low), Math.min(h, high)];
        }
        const run = points.slice(from, to);
        const mean = run.reduce((sum, i) => sum + items[i].x, 0) / run.length;
        for (const i of run) items[i].x = Math.min(Math.max(mean, low), high);
        from = to;
      }
    }
  }
}

// Where along a node's side each of its edges starts and ends, so that they do not all meet in one point.
function spread(items, chains, down, rank) {
  const ports = chains.map(() => [0, 0]);
  const sides = new Map();
  chains.forEach((chain, e) => {
    if (rank[down[e].s] === rank[down[e].t]) return;
    for (const [end, node, next] of [[0, chain[0], chain[1]], [1, chain.at(-1), chain.at(-2)]]) {
      const key = `${node}/${end}`;
      if (!sides.has(key)) sides.set(key, []);
      sides.get(key).push([e, end, items[next].x]);
    }
  });
  for (const [key, edges] of sides) {
    const node = items[Number(key.split("/")[0])];
    const step = Math.min(18, (node.w * 0.7) / Math.max(1, edges.length - 1));
    edges.sort((a, b) => a[2] - b[2]);
    edges.forEach(([e, end], k) => (ports[e][end] = (k - (edges.length - 1) / 2) * step));
  }
  return ports;
}

function route(items, chain, [first, last], turned) {
  const [start, end] = [items[chain[0]], items[chain.at(-1)]];
  if (start.rank === end.rank) {
    const right = start.x < end.x;
    const [a, b] = [start.x + (right ? start.w : -start.w) / 2, end.x + (right ? -end.w : end.w) / 2];
    const bow = start.y + Math.min(46, 12 + Math.abs(b - a) / 8);
    return { d: `M${round(a)} ${round(start.y)}C${round(a)} ${round(bow)} ${round(b)} ${round(bow)} ${round(b)} ${round(end.y)}`,
      x: (a + b) / 2, y: bow };
  }
  let label = null;
  const points = [[start.x + first, start.y + start.h / 2]];
  for (const i of chain.slice(1, -1)) {
    const item = items[i];
    points.push([item.x, item.band[0]]);
    if (item.band[1] > item.band[0]) points.push([item.x, item.band[1]]);
    if (item.label) label = item;
  }
  points.push([end.x + last, end.y - end.h / 2]);
  if (turned) points.reverse();
  let d = `M${round(points[0][0])} ${round(points[0][1])}`;
  for (let k = 1; k < points.length; k++) {
    const [[x0, y0], [x1, y1]] = [points[k - 1], points[k]];
    const middle = round((y0 + y1) / 2);
    d += Math.abs(x0 - x1) < 0.5 ? `L${round(x1)} ${round(y1)}` : `C${round(x0)} ${middle} ${round(x1)} ${middle} ${round(x1)} ${round(y1)}`;
  }
  return { d, x: label ? label.x : (start.x + end.x) / 2, y: label ? label.y : (start.y + end.y) / 2 };
}
