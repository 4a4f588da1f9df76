"""What a node of a random program means in jax; see random_programs.py."""
import os

# Conversions are never elided; the others let XLA compile four times as fast.
os.environ["XLA_FLAGS"] = ("--xla_allow_excess_precision=false --xla_backend_optimization_level=0 "
                           "--xla_llvm_disable_expensive_passes=true --xla_cpu_use_fusion_emitters=false "
                           "--xla_cpu_parallel_codegen_split_count=1 --xla_cpu_max_isa=SSE4_2")
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")

UNARY = dict(negate=lax.neg, abs=lax.abs, sign=lax.sign, exp=lax.exp, expm1=lax.expm1, log=lax.log, log1p=lax.log1p,
             sqrt=lax.sqrt, rsqrt=lax.rsqrt, tanh=lax.tanh, logistic=lax.logistic, erf=lax.erf, sine=lax.sin, cosine=lax.cos,
             floor=lax.floor, ceil=lax.ceil, is_finite=lax.is_finite, logical_not=lax.bitwise_not,
             stop_gradient=lax.stop_gradient, optimization_barrier=lax.optimization_barrier,
             round_nearest_even=lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN))
BINARY = dict(add=lax.add, subtract=lax.sub, multiply=lax.mul, divide=lax.div, remainder=lax.rem, maximum=lax.max,
              minimum=lax.min, power=lax.pow, bitwise_and=lax.bitwise_and, bitwise_or=lax.bitwise_or,
              bitwise_xor=lax.bitwise_xor)
COMPARE = dict(eq=lax.eq, ne=lax.ne, lt=lax.lt, le=lax.le, gt=lax.gt, ge=lax.ge)
REDUCE = dict(sum=lax.reduce_sum, max=lax.reduce_max, min=lax.reduce_min, product=lax.reduce_prod)
WINDOW = dict(sum=(0.0, lax.add), max=(-np.inf, lax.max), min=(np.inf, lax.min))
DTYPE = dict(f32=jnp.float32, f64=jnp.float64, i32=jnp.int32, i64=jnp.int64)
BOUNDS = dict(clip=lax.GatherScatterMode.CLIP, fill_or_drop=lax.GatherScatterMode.FILL_OR_DROP)


def window_taps(shape, window, strides, low, high, base, dilation):
    """[windows..., taps]: the flat index into the operand that each tap reads, -1 outside of it."""
    at = np.zeros((1, 1), np.int64)
    sizes = []
    for n, k, stride, l, h, b, d in zip(shape, window, strides, low, high, base, dilation):
        windows = ((n - 1) * b + 1 + l + h - (k - 1) * d - 1) // stride + 1
        place = np.arange(windows)[:, None] * stride + np.arange(k)[None, :] * d - l
        inside = (place >= 0) & (place % b == 0) & (place // b < n)
        place = np.where(inside, place // b, -1)
        outer, inner = at[:, None, :, None], place[None, :, None, :]
        at = np.where((outer < 0) | (inner < 0), -1, outer * n + inner)
        at = at.reshape(at.shape[0] * windows, -1)
        sizes.append(windows)
    return at.reshape(*sizes, -1)


def extremes(x, kind, *dims):
    """The flat index of each window's first extreme, and whether there is one."""
    taps = window_taps(x.shape, *dims)
    read = jnp.where(taps >= 0, x.reshape(-1)[np.maximum(taps, 0)], WINDOW[kind][0])
    first = (jnp.argmax if kind == "max" else jnp.argmin)(read, axis=-1)
    at = jnp.take_along_axis(jnp.asarray(taps), first[..., None], axis=-1)[..., 0]
    return at, at >= 0


def reduce_window(x, kind, window, strides, low, high, base, dilation):
    if kind != "sum" and (any(n != 1 for n in base + dilation) or min(low + high) < 0):  # lax has no derivative of these
        at, there = extremes(x, kind, window, strides, low, high, base, dilation)
        return jnp.where(there, x.reshape(-1)[jnp.maximum(at, 0)], WINDOW[kind][0])
    return lax.reduce_window(x, *WINDOW[kind], window, strides, list(zip(low, high)), base, dilation)


def select_and_gather(x, source, kind, *dims):
    at, there = extremes(x, kind, *dims)
    return jnp.where(there, source.reshape(-1)[jnp.maximum(at, 0)], 0.0)


def select_and_scatter(x, source, kind, *dims):
    at, there = extremes(x, kind, *dims)
    return jnp.zeros(x.size + 1).at[jnp.where(there, at, x.size)].add(source)[:-1].reshape(x.shape)


def dynamic_update_slice(x, update, start):
    """By masks: jax 0.10.2 on the CPU works in place even where the update is a view of x, and reads what it has written."""
    low = [min(max(int(s), 0), n - m) for s, n, m in zip(start, x.shape, update.shape)]
    padding = [(l, n - m - l, 0) for l, n, m in zip(low, x.shape, update.shape)]
    inside = lax.pad(np.ones(update.shape, bool), False, padding)
    return lax.select(inside, lax.pad(update, 0.0, padding), x)


def scatter(x, indices, updates, offset, collapsed, index_map, sizes, bounds, add):
    where = lax.ScatterDimensionNumbers(tuple(offset), tuple(collapsed), tuple(index_map))
    if add:
        return lax.scatter_add(x, indices, updates, where, mode=BOUNDS[bounds])
    return lax.scatter(x, indices, updates, where, mode=BOUNDS[bounds], unique_indices=True)


def convolution(lhs, kernel, lhs_at, kernel_at, out_at, strides, low, high, lhs_dilation, kernel_dilation, groups,
                batch_groups):
    return lax.conv_general_dilated(lhs, kernel, strides, list(zip(low, high)), lhs_dilation, kernel_dilation,
                                    lax.ConvDimensionNumbers(tuple(lhs_at), tuple(kernel_at), tuple(out_at)),
                                    groups, batch_groups)


SPECIAL = dict(
    iota=lambda shape, axis: lax.broadcasted_iota(jnp.float64, shape, axis),
    full=lambda value, shape: jnp.full(shape, value),
    constant=lambda dtype, shape, numbers: np.array(numbers, DTYPE[dtype]).reshape(shape),
    convert=lambda x, dtype: lax.convert_element_type(x, DTYPE[dtype]),
    reduce_precision=lax.reduce_precision,
    compare=lambda x, y, direction: COMPARE[direction](*alike(x, y)),
    select=lax.select,
    clamp=lambda low, x, high: lax.clamp(jnp.broadcast_to(low, x.shape), x, jnp.broadcast_to(high, x.shape)),
    reshape=lax.reshape,
    transpose=lax.transpose,
    broadcast_in_dim=lax.broadcast_in_dim,
    slice=lax.slice,
    pad=lambda x, low, high, interior: lax.pad(x, 0.0, list(zip(low, high, interior))),
    concatenate=lambda *args: lax.concatenate(args[:-1], args[-1]),
    reverse=lax.rev,
    dynamic_slice=lambda x, start, sizes: lax.dynamic_slice(x, list(start), sizes),
    dynamic_update_slice=dynamic_update_slice,
    gather=lambda x, indices, offset, collapsed, index_map, sizes, bounds: lax.gather(
        x, indices, lax.GatherDimensionNumbers(tuple(offset), tuple(collapsed), tuple(index_map)), tuple(sizes),
        mode=BOUNDS[bounds], fill_value=0),
    scatter=scatter,
    sort=lambda keys, x, axis: lax.sort((keys, x), dimension=axis, is_stable=True, num_keys=1)[1],
    reduce=lambda x, kind, axes: REDUCE[kind](x, tuple(axes)),
    argmax=lambda x, axis: lax.argmax(x, axis, jnp.int32),
    cumsum=lambda x, axis, reverse: lax.cumsum(x, axis, reverse),
    reduce_window=reduce_window,
    select_and_scatter=select_and_scatter,
    select_and_gather=select_and_gather,
    dot_general=lambda x, y, lb, rb, lc, rc: lax.dot_general(x, y, ((lc, rc), (lb, rb))),
    convolution=convolution,
)


def alike(x, y):
    return (x, y) if x.shape == y.shape else jnp.broadcast_arrays(x, y)


def evaluate(nodes, inputs):
    inputs, results = iter(inputs), []
    for op, operands, *attributes in nodes:
        x = [results[i] for i in operands]
        if op == "input":
            y = next(inputs)
        elif op in UNARY:
            y = UNARY[op](*x)
        elif op in BINARY:
            y = BINARY[op](*alike(*x))
        else:
            y = SPECIAL[op](*x, *attributes)
        results.append(y)
    return results
