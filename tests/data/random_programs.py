"""Random programs and what jax computes of them: makes tests/data/random_programs.json.gz.

    python -m venv env && env/bin/pip install jax numpy
    env/bin/python random_programs.py [--first 0] [--count 1000] [--out FILE]

Development only: the build never runs this. The figures in the repository come from jax 0.10.2 with numpy 2.4.6, in
float64 on the CPU. random_programs_made.py makes the programs, random_programs_in_jax.py says what their nodes mean.

A program is a list of nodes [op, operands, attributes...] in the names and the meaning of engine/primitive.hpp. Its
inputs, the directions v and q over all of them and the weights w of the results are `values(program, stream, n)`,
multiples of 1.5 * 2^-20, so that they need not be stored. With s = the sum of w * y over all results y that nothing
reads, the figures are

    s, sum |w y|, s1 = <v, grad s>, |grad s|^2, s2 = <q, grad s1>, |grad s1|^2

by reverse mode twice. In every fourth program jax's own forward mode over forward mode must agree with them. Where a
program rounds on purpose (convert, reduce_precision) tangents and cotangents are rounded in different places, and s1 and
s2 of forward mode follow.

Rejected are programs with values above 1000 or without a second derivative, and those whose figures move by more than
1e-9 when the inputs move by 1e-12: what depends on the last bit says nothing. Exact ties stay: there jax and Backbeat
agree, with two exceptions that no program of the file meets. At the bounds of a clamp jax has derivative 0, Backbeat 1:
clamp(a, clamp(a, x, b), c) has in jax no derivative where a holds, differences agree with Backbeat. And jax does not
differentiate a clamp whose bounds are crossed.

On some derivatives of convolutions XLA of jax 0.10.2 aborts the process (AlgebraicSimplifier, "Window dimensions do not
match RHS shape"); no program of the file is among them, elsewhere --first leads past one.
"""
import argparse
import collections
import gzip
import json
import math
import os
import sys

from random_programs_in_jax import evaluate
from random_programs_made import make

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def values(program, stream, n):
    i = np.arange(n, dtype=np.uint32)
    h = i * np.uint32(0xC2B2AE3D) + np.uint32((program * 0x9E3779B1 + stream * 0x85EBCA77) & 0xFFFFFFFF)
    h ^= h >> np.uint32(16)
    h *= np.uint32(0x85EBCA6B)
    h ^= h >> np.uint32(13)
    h *= np.uint32(0xC2B2AE35)
    h ^= h >> np.uint32(16)
    return (2.0 * (h >> np.uint32(12)) + 1 - 2**20) / 2**20 * 1.5


V, Q, W = 16, 32, 48  # streams: inputs 0.., their directions V.. and Q.., the results' weights W..


class Rejected(Exception):
    pass


def figures(key, p):
    results = p.dangling()
    streams = lambda stream, shapes: [values(key, stream + i, math.prod(s)).reshape(s) for i, s in enumerate(shapes)]
    xs, vs, qs = (streams(stream, p.inputs) for stream in (0, V, Q))
    ws = streams(W, [p.shapes[i] for i in results])
    total = lambda x: lax.reduce_sum(x, range(x.ndim))
    dot = lambda a, b: sum(total(x * y) for x, y in zip(a, b))
    rounds = any(node[0] == "reduce_precision" or node[0] == "convert" and node[2] == "f32" for node in p.nodes)
    with_forward = rounds or key % 4 == 0

    def s_of(xs):
        ys = evaluate(p.nodes, xs)
        magnitudes = [lax.abs(lax.stop_gradient(y)) for y in ys if y.dtype == jnp.float64]
        largest = [lax.reduce_max(y, range(y.ndim)) for y in magnitudes]
        scale = sum(total(lax.abs(lax.stop_gradient(w * ys[i]))) for i, w in zip(results, ws))
        return dot(ws, [ys[i] for i in results]), (scale, largest)

    def s1_of(xs):
        (s, (scale, largest)), g = jax.value_and_grad(s_of, has_aux=True)(xs)
        return dot(vs, g), (s, scale, dot(g, g), largest)

    def forward(xs):
        s1 = lambda xs: jax.jvp(lambda xs: s_of(xs)[0], (xs,), (vs,))[1]
        return jax.jvp(s1, (xs,), (qs,))

    @jax.jit
    def all_of(xs):
        (s1, (s, scale, g2, largest)), h = jax.value_and_grad(s1_of, has_aux=True)(xs)
        t1, t2 = forward(xs) if with_forward else (s1, dot(qs, h))
        return lax.concatenate([lax.reshape(x, [1]) for x in (s, scale, s1, g2, dot(qs, h), dot(h, h), t1, t2, *largest)], 0)

    f = np.asarray(all_of(xs))
    moved = np.asarray(all_of([x * (1 + 1e-12 * v) for x, v in zip(xs, vs)]))
    finite, largest = np.isfinite(f).all(), max(f[8:])
    f, moved = f[:8], moved[:8]
    s, scale, s1, g2, s2, h2, t1, t2 = f
    if not finite or largest > 1e3 or scale == 0 or not 1e-6 < math.sqrt(g2) / scale < 1e4:
        raise Rejected("values")
    if not 1e-3 < math.sqrt(h2 / g2) < 1e5:
        raise Rejected("second derivative")
    norm = lambda arrays: math.sqrt(sum((a**2).sum() for a in arrays))
    first, second = norm(vs) * math.sqrt(g2), norm(qs) * math.sqrt(h2)
    scales = np.array([scale, scale, first, g2, second, h2, first, second])
    if (abs(f - moved) > 1e-9 * scales).any():
        raise Rejected("last bit")
    if not rounds and max(abs(s1 - t1) / first, abs(s2 - t2) / second) > 1e-10:
        print(f"program {key}: jax differs from itself, {s1} {t1}, {s2} {t2}: {json.dumps(p.nodes)}", file=sys.stderr)
        raise Rejected("jax differs from itself")
    return [*f[:6], *([t1, t2] if rounds else [])]


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--first", type=int, default=0, help="number of the first program")
    arguments.add_argument("--count", type=int, default=1000)
    arguments.add_argument("--out", default="random_programs.json.gz")
    arguments = arguments.parse_args()
    programs, rejected, histogram = [], collections.Counter(), collections.Counter()
    key = arguments.first
    while len(programs) < arguments.count:
        p = make(key)
        try:
            programs.append({"key": key, "nodes": p.nodes, "figures": [float(f) for f in figures(key, p)]})
            names = {node[0] if node[0] not in ("reduce", "reduce_window", "scatter") else
                     node[0] + " " + (node[2] if node[0] != "scatter" else "add" if node[-1] else "set") for node in p.nodes}
            histogram.update(names)
        except Rejected as reason:
            rejected[str(reason)] += 1
        key += 1
        if key % 25 == 0:
            jax.clear_caches()
            print(f"{len(programs)} of {arguments.count}, rejected {dict(rejected)}", flush=True)
    with open(arguments.out, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
        lines = ",\n".join(json.dumps(p, separators=(",", ":")) for p in programs)
        file.write(f"[\n{lines}\n]\n".encode())
    print(f"{os.path.getsize(arguments.out)} bytes; in how many programs an operation occurs:")
    for name, count in sorted(histogram.items(), key=lambda item: item[1]):
        print(f"{count:6} {name}")


if __name__ == "__main__":
    main()
