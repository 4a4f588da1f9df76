"""Making a random program whose values stay where every operation is defined; see random_programs.py."""
import math
import random

import numpy as np

from random_programs_in_jax import COMPARE, window_taps

MOST_ELEMENTS = 120


class Program:
    """Nodes; of each its shape, whether it is a float that depends on the inputs, and a guess of its root mean square."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.nodes, self.shapes, self.floats, self.sizes = [], [], [], []
        self.read, self.inputs = set(), []

    def emit(self, op, operands, *attributes, shape, size=1.0, is_float=True):
        self.nodes.append([op, list(operands), *attributes])
        self.shapes.append(list(shape))
        self.floats.append(is_float)
        self.sizes.append(max(size, 1e-3))
        self.read.update(operands)
        return len(self.nodes) - 1

    def input(self, shape):
        self.inputs.append(list(shape))
        return self.emit("input", [], list(shape), shape=shape, size=0.87)

    def full(self, value, shape=()):
        return self.emit("full", [], value, list(shape), shape=shape, size=abs(value), is_float=False)

    def constant(self, numbers, dtype=None):
        numbers = np.array(numbers)
        dtype = dtype or self.random.choice(["i32", "i32", "i64"])
        return self.emit("constant", [], dtype, list(numbers.shape), numbers.reshape(-1).tolist(), shape=numbers.shape,
                         is_float=False)

    def work(self):
        return sum(node[0] not in ("input", "full", "constant", "iota") for node in self.nodes)

    def dangling(self):
        return [i for i, f in enumerate(self.floats) if f and i not in self.read]

    def chance(self, probability):
        return self.random.random() < probability

    def some(self, items):  # a random subset, in random order
        return self.random.sample(list(items), self.random.randint(0, len(items)))

    def dims(self, shape, low, high):
        return [self.random.randint(low, high) for _ in shape]

    def pick(self, rank=0, most=MOST_ELEMENTS):
        fits = [i for i, f in enumerate(self.floats)
                if f and len(self.shapes[i]) >= rank and math.prod(self.shapes[i]) <= most]
        free = [i for i in fits if i not in self.read]
        if not fits:
            return self.shaped([self.random.randint(1, 4) for _ in range(max(rank, 1))])
        return self.random.choice(free if free and self.chance(0.7) else fits)

    def new_shape(self, low, high):
        return [self.random.choice([1, 2, 2, 3, 3, 4, 5]) for _ in range(self.random.randint(low, high))]

    def shaped(self, shape, other_than=()):
        """A value of that shape: one there is, a further input, or one made of what there is."""
        shape = list(shape)
        same = [i for i, f in enumerate(self.floats) if f and self.shapes[i] == shape and i not in other_than]
        if same and self.chance(0.8):
            return self.random.choice(same)
        if not self.inputs or (len(self.inputs) < 3 and self.chance(0.7)):
            return self.input(shape)
        x, need = self.pick(), math.prod(shape)
        n = math.prod(self.shapes[x])
        if n < need:
            times = -(-need // n)
            x = self.reshape(x, [n])
            x = self.emit("broadcast_in_dim", [x], [times, n], [1], shape=[times, n], size=self.sizes[x])
            n *= times
        if n > need:
            x = self.reshape(x, [n])
            start = self.random.randint(0, n - need)
            x = self.emit("slice", [x], [start], [start + need], [1], shape=[need], size=self.sizes[x])
        return self.reshape(x, shape)

    def reshape(self, x, shape):
        if self.shapes[x] == list(shape):
            return x
        return self.emit("reshape", [x], list(shape), shape=shape, size=self.sizes[x])

    def unary(self, op, x, size=1.0):
        return self.emit(op, [x], shape=self.shapes[x], size=size)

    def binary(self, op, x, y, size):
        shape = np.broadcast_shapes(tuple(self.shapes[x]), tuple(self.shapes[y]))
        return self.emit(op, [x, y], shape=shape, size=size)

    def times(self, x, y):
        return self.binary("multiply", x, y, self.sizes[x] * self.sizes[y])

    def plus(self, x, y):
        return self.binary("add", x, y, math.hypot(self.sizes[x], self.sizes[y]))

    def damped(self, x, limit):
        if self.sizes[x] <= limit:
            return x
        return self.times(x, self.full(float(f"{0.7 * limit / self.sizes[x]:.2g}")))

    def positive(self, x):
        x = self.damped(x, 2)
        kind = self.random.randrange(5)
        if kind == 0:
            return self.plus(self.times(x, x), self.full(0.5))
        if kind == 1:
            return self.plus(self.unary("logistic", x, 0.5), self.full(0.25))
        if kind == 2:
            return self.unary("exp", self.unary("sine", x, 0.7), 1.3)
        if kind == 3:
            return self.plus(self.unary("abs", x, self.sizes[x]), self.full(0.3))
        return self.plus(self.unary("cosine", x, 0.7), self.full(1.5))

    def stepped(self, x):  # piecewise constant
        op = self.random.choice(["sign", "floor", "ceil", "round_nearest_even"])
        if op != "sign":
            x = self.times(x, self.full(1.7))
        return self.unary(op, x, self.sizes[x])

    def predicate(self, x):
        shape = self.shapes[x]
        y = self.full(self.random.choice([-0.3, 0.1, 0.4])) if self.chance(0.4) else self.shaped(shape, [x])
        return self.emit("compare", [x, y], self.random.choice(list(COMPARE)), shape=shape, is_float=False)


SMOOTH = dict(tanh=0.6, logistic=0.5, erf=0.6, sine=0.7, cosine=0.7)


def curve(p):
    x = p.pick()
    kind = p.random.randrange(12)
    if kind < 5:
        p.unary(list(SMOOTH)[kind], p.damped(x, 3), list(SMOOTH.values())[kind])
    elif kind < 7:
        x = p.damped(x, 1.2)
        p.unary(["exp", "expm1"][kind - 5], x, math.exp(p.sizes[x]))
    elif kind == 7:
        x = p.times(x, x) if p.chance(0.5) else p.unary("exp", p.damped(x, 1), 1.5)
        p.unary("log1p", x, 0.7)
    elif kind < 11:
        p.unary(["log", "sqrt", "rsqrt"][kind - 8], p.positive(x))
    else:
        p.times(x, x)


def plain(p):
    x = p.pick()
    kind = p.random.choices(range(7), [1, 1, 4, 1, 1, 1, 1])[0]
    if kind < 2:
        p.unary(["negate", "abs"][kind], x, p.sizes[x])
    elif kind == 2:
        p.times(p.shaped(p.shapes[x], [x]), p.stepped(x))
    elif kind == 3:
        p.times(p.shaped(p.shapes[x]), p.unary("stop_gradient", x, p.sizes[x]))
    elif kind == 4:
        p.unary("optimization_barrier", x, p.sizes[x])
    elif kind == 5:
        p.emit("reduce_precision", [x], p.random.choice([8, 11]), p.random.choice([10, 23, 40, 52]), shape=p.shapes[x],
               size=p.sizes[x])
    else:
        narrow = p.emit("convert", [x], "f32", shape=p.shapes[x], is_float=False)
        p.emit("convert", [narrow], "f64", shape=p.shapes[x], size=p.sizes[x])


def arithmetic(p):
    x = p.pick()
    shape = p.shapes[x]
    if p.chance(0.4):  # numpy's broadcasting
        shape = [1 if p.chance(0.4) else n for n in shape][p.random.randint(0, len(shape)):]
    y = p.shaped(shape, [x])
    op = p.random.choice(["add", "subtract", "multiply", "multiply", "divide", "remainder", "maximum", "minimum", "power"])
    sizes = p.sizes[x], p.sizes[y]
    if op in ("multiply", "add", "subtract", "maximum", "minimum"):
        if p.chance(0.4):
            x, y = y, x
        p.binary(op, x, y, math.prod(sizes) if op == "multiply" else math.hypot(*sizes))
    elif op in ("divide", "remainder"):
        p.binary(op, x, p.positive(y), sizes[0] if op == "divide" else 0.5)
    elif p.chance(0.3):
        x = p.damped(x, 2)
        p.binary(op, x, p.full(p.random.choice([2.0, 3.0, 4.0])), p.sizes[x]**3)
    else:
        p.binary(op, p.positive(x), p.damped(y, 1.5), 2)


def choose(p):
    x = p.pick()
    shape = p.shapes[x]
    if p.chance(0.5):
        condition = p.predicate(x)
        if p.chance(0.7):
            condition = p.emit(p.random.choice(["bitwise_and", "bitwise_or", "bitwise_xor"]),
                               [condition, p.predicate(p.shaped(shape))], shape=shape, is_float=False)
        if p.chance(0.4):
            condition = p.emit("logical_not", [condition], shape=shape, is_float=False)
        y, z = p.shaped(shape), p.shaped(shape, [x])
        p.emit("select", [condition, y, z], shape=shape, size=max(p.sizes[y], p.sizes[z]))
    elif p.chance(0.4):
        p.emit("clamp", [p.full(-0.6), x, p.full(0.7)], shape=shape, size=0.5)
    else:
        y, z = p.shaped(shape), p.shaped(shape)
        low = p.binary("subtract", p.unary("logistic", y, 0.5), p.full(1.3), 0.8)
        high = p.plus(p.unary("logistic", z, 0.5), p.full(0.1))
        p.emit("clamp", [low, x, high], shape=shape, size=0.5)


def move(p):
    kind = p.random.randrange(8)
    x = p.pick(rank=0 if kind in (0, 2) else 1)
    shape, size, r = p.shapes[x], p.sizes[x], p.random
    rank = len(shape)
    if kind == 0:
        factors = r.sample(shape, rank)
        if len(factors) > 1 and p.chance(0.7):
            factors = [factors[0] * factors[1]] + factors[2:]
        if len(factors) < 4:
            factors.insert(r.randint(0, len(factors)), 1)
        if factors != shape:
            p.emit("reshape", [x], factors, shape=factors, size=size)
    elif kind == 1 and rank > 1:
        order = r.sample(range(rank), rank)
        p.emit("transpose", [x], order, shape=[shape[i] for i in order], size=size)
    elif kind == 2 and rank < 4:
        new = r.randint(rank + (1 not in shape), 4)
        dims = sorted(r.sample(range(new), rank))
        wide = [r.randint(1, 4) for _ in range(new)]
        for i, d in enumerate(dims):
            wide[d] = shape[i] if shape[i] > 1 else r.randint(1, 4)
        if math.prod(wide) <= MOST_ELEMENTS:
            p.emit("broadcast_in_dim", [x], wide, dims, shape=wide, size=size)
    elif kind == 3:
        start = [r.randint(0, n - 1) for n in shape]
        limit = [r.randint(s + 1, n) for s, n in zip(start, shape)]
        stride = p.dims(shape, 1, 3)
        p.emit("slice", [x], start, limit, stride, size=size,
               shape=[(l - s + k - 1) // k for s, l, k in zip(start, limit, stride)])
    elif kind == 4:
        low, high, interior = p.dims(shape, -1, 2), p.dims(shape, -1, 2), p.dims(shape, 0, 1)
        to = [(n - 1) * (i + 1) + 1 + l + h for n, l, h, i in zip(shape, low, high, interior)]
        if min(to) > 0 and math.prod(to) <= MOST_ELEMENTS:
            p.emit("pad", [x], low, high, interior, shape=to, size=size)
    elif kind == 5:
        axis, parts = r.randrange(rank), [x]
        for _ in range(r.randint(1, 2)):
            part = shape[:axis] + [r.randint(1, 3)] + shape[axis + 1:]
            parts.append(p.shaped(part))
        r.shuffle(parts)
        whole = shape[:axis] + [sum(p.shapes[part][axis] for part in parts)] + shape[axis + 1:]
        if math.prod(whole) <= MOST_ELEMENTS:
            p.emit("concatenate", parts, axis, shape=whole, size=max(p.sizes[part] for part in parts))
    elif kind == 6:
        p.emit("reverse", [x], p.some(range(rank)) or [rank - 1], shape=shape, size=size)
    elif kind == 7:
        count = p.emit("iota", [], shape, r.randrange(rank), shape=shape, size=2, is_float=False)
        p.times(x, count)


def slice_at(p):
    x = p.pick(rank=1)
    shape = p.shapes[x]
    start = p.constant([p.random.randint(0, n) for n in shape])  # as far as one outside: then it is moved
    sizes = [p.random.randint(1, n) for n in shape]
    if p.chance(0.5):
        p.emit("dynamic_slice", [x, start], sizes, shape=sizes, size=p.sizes[x])
    else:
        update = p.shaped(sizes, [x])
        p.emit("dynamic_update_slice", [x, update, start], shape=shape, size=max(p.sizes[x], p.sizes[update]))


def index(p):
    x = p.pick(rank=1, most=60)
    shape, r = p.shapes[x], p.random
    rank = len(shape)
    index_map = p.some(range(rank)) or [r.randrange(rank)]
    sizes = [r.randint(1, n) if d in index_map or p.chance(0.2) else n for d, n in enumerate(shape)]
    collapsed = sorted(d for d in range(rank) if sizes[d] == 1 and p.chance(0.7))
    batch = p.new_shape(0, 2)
    kind = r.choice(["gather", "gather", "add", "add", "set"])
    bounds = r.choice(["clip", "fill_or_drop"])
    if kind == "set":  # windows that do not meet, and some outside
        cells = [[]]
        for d in index_map:
            cells = [c + [k] for c in cells for k in range(0, shape[d] - sizes[d] + 1, sizes[d])]
        if bounds == "fill_or_drop":
            cells += [[shape[d] + k for d in index_map] for k in range(2)]
        r.shuffle(cells)
        indices = np.array(cells[:r.randint(1, min(len(cells), 5))])
        batch = list(indices.shape[:-1])
    else:
        indices = np.array([r.randint(-1, shape[d]) for _ in range(math.prod(batch)) for d in index_map])
        indices = indices.reshape(*batch, len(index_map))
    windows = [n for d, n in enumerate(sizes) if d not in collapsed]
    total = len(batch) + len(windows)
    offset = sorted(r.sample(range(total), len(windows)))
    outer, inner = iter(batch), iter(windows)
    result = [next(inner) if d in offset else next(outer) for d in range(total)]
    if math.prod(result) > MOST_ELEMENTS:
        return
    where = [offset, collapsed, index_map, sizes, bounds]
    at = p.constant(indices)
    if kind == "gather":
        p.emit("gather", [x, at], *where, shape=result, size=p.sizes[x])
    else:
        updates = p.shaped(result, [x])
        p.emit("scatter", [x, at, updates], *where, kind == "add", shape=shape, size=max(p.sizes[x], p.sizes[updates]) * 1.3)


def order(p):
    x = p.pick(rank=1)
    shape = p.shapes[x]
    axis = p.random.randrange(len(shape))
    kind = p.random.randrange(5)
    if kind == 0:
        p.emit("sort", [x, x], axis, shape=shape, size=p.sizes[x])
    elif kind == 1:
        y = p.shaped(shape, [x])
        p.emit("sort", [y, x], axis, shape=shape, size=p.sizes[x])
    elif kind == 2:
        first = p.emit("argmax", [x], axis, shape=shape[:axis] + shape[axis + 1:], is_float=False)
        first = p.emit("convert", [first], "f64", shape=p.shapes[first], is_float=False)
        p.times(p.shaped(p.shapes[first]), first)
    else:
        p.emit("cumsum", [x], axis, p.chance(0.5), shape=shape, size=p.sizes[x] * math.sqrt(shape[axis]))


def reduction(p):
    x = p.pick(rank=1)
    shape = p.shapes[x]
    axes = p.some(range(len(shape))) or [p.random.randrange(len(shape))]
    count = math.prod(shape[a] for a in axes)
    kind = p.random.choice(["sum", "max", "min", "product"])
    if kind == "product":
        if count > 12:
            return
        x = p.damped(x, 1.5)
    size = {"sum": p.sizes[x] * math.sqrt(count), "product": p.sizes[x]**min(count, 3)}.get(kind, p.sizes[x] * 1.3)
    p.emit("reduce", [x], kind, axes, shape=[n for d, n in enumerate(shape) if d not in axes], size=size)


def windows(p):
    x = p.pick(rank=1, most=60)
    shape = p.shapes[x]
    kind, op = p.random.choice(["sum", "max", "min"]), "reduce_window"
    if kind != "sum" and p.chance(0.4):
        op = p.random.choice(["select_and_gather", "select_and_scatter"])
    window, strides, low, high = p.dims(shape, 1, 3), p.dims(shape, 1, 2), p.dims(shape, 0, 1), p.dims(shape, 0, 1)
    base, dilation = [1] * len(shape), [1] * len(shape)
    if p.chance(0.4):
        base, dilation = p.dims(shape, 1, 2), p.dims(shape, 1, 2)
        if p.chance(0.5):
            low, high = p.dims(shape, -1, 2), p.dims(shape, -1, 2)
    dims = [window, strides, low, high, base, dilation]
    padded = [(n - 1) * b + 1 + l + h for n, b, l, h in zip(shape, base, low, high)]
    if min(n - (k - 1) * d for n, k, d in zip(padded, window, dilation)) < 1:
        return
    taps = window_taps(shape, *dims)
    result = taps.shape[:-1]
    if math.prod(result) > MOST_ELEMENTS or (op == "reduce_window" and kind != "sum" and (taps < 0).all(-1).any()):
        return
    if op == "reduce_window":
        p.emit(op, [x], kind, *dims, shape=result, size=p.sizes[x] * (math.sqrt(math.prod(window)) if kind == "sum" else 1))
    else:
        source = p.shaped(shape if op == "select_and_gather" else result, [x])
        p.emit(op, [x, source], kind, *dims, shape=result if op == "select_and_gather" else shape, size=p.sizes[source])


def dot(p):
    r = p.random
    size = lambda: r.choice([1, 2, 2, 3, 3, 4])
    batch = [size() for _ in range(r.choice([0, 0, 1, 1, 2]))]
    contracting = [size() for _ in range(r.choice([0, 1, 1, 1, 2]))]
    taken = len(batch) + len(contracting)
    sides = []
    for _ in range(2):
        free = [size() for _ in range(r.randint(0, min(2, 4 - taken)))]
        roles = [("b", i, n) for i, n in enumerate(batch)] + [("c", i, n) for i, n in enumerate(contracting)]
        roles += [("f", i, n) for i, n in enumerate(free)]
        # Free dimensions keep their order among themselves: the result has them in this order.
        r.shuffle(roles)
        left = iter(free)
        roles = [(k, i, next(left) if k == "f" else n) for k, i, n in roles]
        at = {(k, i): d for d, (k, i, _) in enumerate(roles)}
        sides.append(([n for *_, n in roles], [at["b", i] for i in range(len(batch))],
                      [at["c", i] for i in range(len(contracting))], free))
    (ls, lb, lc, lf), (rs, rb, rc, rf) = sides
    result = batch + lf + rf
    if max(map(math.prod, (ls, rs, result))) > MOST_ELEMENTS:
        return
    x = p.shaped(ls)
    y = p.shaped(rs, [x])
    p.emit("dot_general", [x, y], lb, rb, lc, rc, shape=result,
           size=p.sizes[x] * p.sizes[y] * math.sqrt(math.prod(contracting)))


def conv(p):
    r = p.random
    spatial = r.randint(1, 2)
    groups, batch_groups = r.choice([(1, 1), (1, 1), (2, 1), (3, 1), (1, 2)])
    batch, features, out = r.randint(1, 2) * batch_groups, r.randint(1, 2), r.randint(1, 2) * groups * batch_groups
    n, k = [r.randint(2, 5) for _ in range(spatial)], [r.randint(1, 3) for _ in range(spatial)]
    strides, low, high = p.dims(n, 1, 2), p.dims(n, -1, 2), p.dims(n, -1, 2)
    lhs_dilation, kernel_dilation = (p.dims(n, 1, 2), p.dims(n, 1, 2)) if p.chance(0.5) else ([1] * spatial, [1] * spatial)
    m = [((a - 1) * d + l + h - (b - 1) * e) // s + 1
         for a, b, s, l, h, d, e in zip(n, k, strides, low, high, lhs_dilation, kernel_dilation)]
    logical = [batch, features * groups, *n], [out, features, *k], [batch // batch_groups, out, *m]
    if min(m) < 1 or max(map(math.prod, logical)) > MOST_ELEMENTS:
        return
    layouts = [r.sample(range(spatial + 2), spatial + 2) if p.chance(0.6) else list(range(spatial + 2)) for _ in range(3)]
    lhs, kernel, result = ([sizes[layout.index(d)] for d in range(spatial + 2)] for sizes, layout in zip(logical, layouts))
    x = p.shaped(lhs)
    y = p.shaped(kernel, [x])
    p.emit("convolution", [x, y], *layouts, strides, low, high, lhs_dilation, kernel_dilation, groups, batch_groups,
           shape=result, size=p.sizes[x] * p.sizes[y] * math.sqrt(features * math.prod(k)))


MOVES = {curve: 7, plain: 4, arithmetic: 6, choose: 3, move: 6, slice_at: 1.5, index: 3, order: 2, reduction: 3, windows: 3,
         dot: 2, conv: 2}


def make(seed):
    p = Program(seed)
    p.input(p.new_shape(0, 4))
    target = p.random.randint(4, 10)
    while p.work() < target:
        p.random.choices(list(MOVES), list(MOVES.values()))[0](p)
        for x in p.dangling():
            p.damped(x, 20)
    for x in p.dangling():  # what is linear in the end still has a second derivative
        if p.chance(0.7):
            p.unary(p.random.choice(list(SMOOTH)), p.damped(x, 2))
    return p
