"""Makes layers.json: what PyTorch, TensorFlow and plain numpy compute of small layers, losses, optimizers and schedules.

  python3 layers.py torch        with PyTorch 1.13 and numpy 1.24 (Debian 12: python3-torch)
  python3 layers.py tensorflow   with TensorFlow 2.21 (PyPI: tensorflow-cpu) and numpy 2

Each run writes its part of the file and leaves the other's. All in float64, on one thread; inputs are multiples of 1/256, exact
in float32. Images are [n, h, w, c] and kernels [h, w, in, out] in the file.
"""
import json, os, sys
import numpy as np

path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers.json")
cases = {}


def draw(seed, *shape, spread=1.0):
    return np.round(np.random.RandomState(seed).normal(0, spread, shape) * 64) / 64


def distinct(seed, *shape):
    """No two elements nearer than 1/16: nothing ties while a derivative is measured."""
    n = int(np.prod(shape))
    return ((np.random.RandomState(seed).permutation(n) - n // 2) / 16 + 1 / 32).reshape(shape)


def pack(a):
    a = np.asarray(a)
    kind = {"f": "f64", "i": "i32", "b": "bool"}[a.dtype.kind]
    return {"dtype": kind, "shape": list(a.shape), "values": [int(v) if kind != "f64" else float(v) for v in a.reshape(-1)]}


def case(name, source, inputs, outputs):
    cases[name] = {"source": source, "inputs": {k: pack(v) for k, v in inputs.items()},
                   "outputs": {k: pack(v) for k, v in outputs.items()}}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def with_torch():
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(1)
    t = lambda a: torch.tensor(np.array(a))
    nchw = lambda a: t(a).permute(0, 3, 1, 2)
    nhwc = lambda a: a.permute(0, 2, 3, 1).contiguous().numpy()
    oihw = lambda w: t(w).permute(3, 2, 0, 1)

    x, w, b = draw(1, 2, 3, 4), draw(2, 4, 5), draw(3, 5)
    case("dense", "torch linear", {"x": x, "l/weight": w, "l/bias": b}, {"y": F.linear(t(x), t(w).T, t(b)).numpy()})
    indices = np.array([[1, 0], [3, 1]], np.int32)
    case("embedding", "torch embedding", {"l/weight": w, "i": indices}, {"y": F.embedding(t(indices), t(w)).numpy()})

    x, w, b = draw(4, 2, 5, 6, 4), draw(5, 3, 2, 4, 3), draw(6, 3)
    y = F.conv2d(nchw(x), oihw(w), t(b), dilation=(1, 2))
    case("conv2d, valid, dilated", "torch conv2d", {"x": x, "l/weight": w, "l/bias": b}, {"y": nhwc(y)})
    w = draw(7, 3, 3, 2, 6)
    y = F.conv2d(nchw(x), oihw(w), None, stride=(2, 1), padding=1, groups=2)
    case("conv2d, given padding, groups", "torch conv2d", {"x": x, "l/weight": w}, {"y": nhwc(y)})
    x, w, b = draw(8, 2, 3, 4, 3), draw(9, 3, 3, 3, 2), draw(10, 2)
    mirrored = t(w[::-1, ::-1].copy()).permute(2, 3, 0, 1)  # torch: [in, out, h, w]
    y = F.conv_transpose2d(nchw(x), mirrored, t(b), stride=2, padding=1, output_padding=1)
    case("conv2d_transposed, given padding", "torch conv_transpose2d", {"x": x, "l/weight": w, "l/bias": b}, {"y": nhwc(y)})

    x = distinct(11, 2, 5, 4, 2)
    case("max_pool, valid", "torch max_pool2d", {"x": x}, {"y": nhwc(F.max_pool2d(nchw(x), 2, 2))})
    y = F.avg_pool2d(nchw(x), (3, 2), (2, 1), (1, 0), count_include_pad=False)
    case("average_pool, given padding", "torch avg_pool2d", {"x": x}, {"y": nhwc(y)})
    case("upsample", "torch interpolate, nearest", {"x": x}, {"y": nhwc(F.interpolate(nchw(x), scale_factor=3))})

    x, s, o = draw(12, 3, 5), 1 + draw(13, 5, spread=0.3), draw(14, 5)
    affine = {"l/scale": s, "l/offset": o}
    case("layer_norm", "torch layer_norm", {"x": x, **affine}, {"y": F.layer_norm(t(x), (5,), t(s), t(o)).numpy()})
    x, s, o = draw(15, 3, 2, 3, 4), 1 + draw(16, 4, spread=0.3), draw(17, 4)
    affine = {"l/scale": s, "l/offset": o}
    y = F.layer_norm(t(x), (2, 3, 4)).numpy() * s + o
    case("layer_norm, image", "torch layer_norm, then numpy", {"x": x, **affine}, {"y": y})
    case("group_norm", "torch group_norm", {"x": x, **affine}, {"y": nhwc(F.group_norm(nchw(x), 2, t(s), t(o)))})
    y = F.instance_norm(nchw(x), weight=t(s), bias=t(o))
    case("instance_norm", "torch instance_norm", {"x": x, **affine}, {"y": nhwc(y)})
    y = F.batch_norm(nchw(x), None, None, t(s), t(o), training=True)
    case("batch_norm", "torch batch_norm", {"x": x, **affine}, {"y": nhwc(y)})
    mean, variance = draw(18, 4), np.abs(draw(19, 4)) + 0.5
    y = F.batch_norm(nchw(x), t(mean), t(variance), t(s), t(o), training=False, eps=1e-3)
    case("batch_norm_inference", "torch batch_norm",
         {"x": x, **affine, "l/moving_mean": mean, "l/moving_variance": variance}, {"y": nhwc(y)})
    running = t(mean), t(variance)
    y = [nhwc(F.batch_norm(nchw(v), *running, t(s), t(o), training=True, momentum=0.1)) for v in (x, 2 * x + 1)]
    case("batch_norm_training, two steps", "torch batch_norm",
         {"x": np.stack([x, 2 * x + 1]), **affine, "l/moving_mean": mean, "l/moving_variance": variance},
         {"y": np.stack(y), "moving_mean": running[0].numpy(), "moving_variance": running[1].numpy()})

    x = distinct(20, 3, 7) * 0.875
    for name, f in {"gelu": F.gelu, "elu": F.elu, "silu": F.silu}.items():
        case(name, "torch " + name, {"x": x}, {"y": f(t(x)).numpy()})
    case("hard_sigmoid", "numpy", {"x": x * 4}, {"y": np.clip(0.2 * x * 4 + 0.5, 0, 1)})
    x = draw(21, 3, 4, 2)
    case("softmax", "torch softmax", {"x": x}, {"y": F.softmax(t(x), 1).numpy()})
    case("log_softmax", "torch log_softmax", {"x": x}, {"y": F.log_softmax(t(x), 1).numpy()})
    case("log_sum_exp", "torch logsumexp", {"x": x}, {"y": torch.logsumexp(t(x), 1).numpy()})
    far = np.array([[1000, 0, -1000], [-250, -251, -253], [0, 0, 0.0]])
    case("softmax, far apart", "torch softmax", {"x": far}, {"y": F.softmax(t(far), 1).numpy()})
    case("log_softmax, far apart", "torch log_softmax", {"x": far}, {"y": F.log_softmax(t(far), 1).numpy()})

    x, labels, targets = draw(22, 4, 3), np.array([2, 0, 1, 1], np.int32), np.abs(draw(23, 4, 3))
    case("softmax_cross_entropy", "torch cross_entropy", {"x": x, "labels": labels},
         {"y": F.cross_entropy(t(x), t(labels).long(), reduction="none").numpy()})
    case("soft_cross_entropy", "torch log_softmax, then the sum", {"x": x, "targets": targets},
         {"y": -(t(targets) * F.log_softmax(t(x), 1)).sum(1).numpy()})
    x, targets = draw(24, 8, spread=2), np.array([0, 1, 0.25, 0.5, 1, 0, 0.75, 1])
    case("binary_cross_entropy", "torch binary_cross_entropy_with_logits", {"x": x, "targets": targets},
         {"y": F.binary_cross_entropy_with_logits(t(x), t(targets), reduction="none").numpy()})
    x, targets = np.array([30.0, -30, 30, -30, 200, -200]), np.array([1.0, 0, 0, 1, 0, 1])
    y = np.log1p(np.exp(-np.abs(x))) + np.where((x > 0) == (targets > 0), 0, np.abs(x))
    case("binary_cross_entropy, far", "numpy", {"x": x, "targets": targets}, {"y": y})

    q, k = draw(25, 2, 3, 4), draw(26, 2, 5, 4)
    attention = torch.nn.MultiheadAttention(4, 2, batch_first=True, dtype=torch.float64)
    names = ["query", "key", "value", "out"]
    weights = {n: draw(30 + i, 4, 4, spread=0.7) for i, n in enumerate(names)}
    biases = {n: draw(40 + i, 4) for i, n in enumerate(names)}
    with torch.no_grad():
        attention.in_proj_weight.copy_(t(np.concatenate([weights[n].T for n in names[:3]])))
        attention.in_proj_bias.copy_(t(np.concatenate([biases[n] for n in names[:3]])))
        attention.out_proj.weight.copy_(t(weights["out"].T))
        attention.out_proj.bias.copy_(t(biases["out"]))
        p = {f"l/{n}/weight": weights[n] for n in names} | {f"l/{n}/bias": biases[n] for n in names}
        y = attention(t(q), t(k), t(2 * k), need_weights=False)[0]
        case("multi_head_attention", "torch MultiheadAttention", {"q": q, "k": k, "v": 2 * k, **p}, {"y": y.numpy()})
        y = attention(t(k), t(k), t(k), need_weights=False, attn_mask=torch.triu(torch.ones(5, 5, dtype=torch.bool), 1))[0]
        case("multi_head_attention, causal", "torch MultiheadAttention", {"x": k, **p}, {"y": y.numpy()})

    x, h, c = draw(50, 3, 2, 3), draw(51, 2, 2), draw(52, 2, 2)  # [step, n, in]
    wx, wh, bias = draw(53, 3, 8, spread=0.7), draw(54, 2, 8, spread=0.7), draw(55, 8)
    lstm = torch.nn.LSTM(3, 2, dtype=torch.float64)
    with torch.no_grad():
        lstm.weight_ih_l0.copy_(t(wx.T)), lstm.weight_hh_l0.copy_(t(wh.T))
        lstm.bias_ih_l0.copy_(t(bias)), lstm.bias_hh_l0.zero_()
        y, (_, last) = lstm(t(x), (t(h)[None], t(c)[None]))
    p = {"l/input_weight": wx, "l/hidden_weight": wh, "l/bias": bias}
    case("lstm", "torch LSTM", {"x": x, "h": h, "c": c, **p}, {"y": y.numpy(), "c": last[0].numpy()})

    # Cells with peepholes, gate by gate, as the papers write them.
    def cells(xs, h, c, product_x, product_h, bias, peepholes, gate, forget_bias):
        units, hs = c.shape[-1], []
        for x in xs:
            part = lambda k: product_x(x, k) + product_h(h, k) + bias[k * units:(k + 1) * units]
            i = gate(part(0) + peepholes[0] * c)
            f = gate(part(1) + peepholes[1] * c + forget_bias)
            c = f * c + i * np.tanh(part(2))
            h = gate(part(3) + peepholes[2] * c) * np.tanh(c)
            hs.append(h)
        return np.stack(hs), c

    columns = lambda m, k: m[..., k * 2:(k + 1) * 2]
    peepholes = [draw(56 + i, 2) for i in range(3)]
    y, last = cells(x, h, c, lambda a, k: a @ columns(wx, k), lambda a, k: a @ columns(wh, k), bias, peepholes, sigmoid, 1.0)
    seen = {f"l/peephole_{n}": v for n, v in zip(["input", "forget", "output"], peepholes)}
    case("lstm, peepholes", "numpy", {"x": x, "h": h, "c": c, **p, **seen}, {"y": y, "c": last})

    x, h, c = draw(60, 2, 1, 4, 3, 2), draw(61, 1, 4, 3, 2), draw(62, 1, 4, 3, 2)
    wx, wh, bias = draw(63, 3, 3, 2, 8, spread=0.3), draw(64, 3, 3, 2, 8, spread=0.3), draw(65, 8, spread=0.5)
    same = lambda a, w: nhwc(F.conv2d(nchw(a), oihw(w), padding=1))
    p = {"l/input_weight": wx, "l/hidden_weight": wh, "l/bias": bias}
    peepholes = [draw(66 + i, 4, 3, 2, spread=0.5) for i in range(3)]
    seen = {f"l/peephole_{n}": v for n, v in zip(["input", "forget", "output"], peepholes)}
    products = lambda a, k: same(a, columns(wx, k)), lambda a, k: same(a, columns(wh, k))
    y, last = cells(x, h, c, *products, bias, peepholes, sigmoid, 0.0)
    case("conv_lstm, peepholes", "torch conv2d and numpy", {"x": x, "h": h, "c": c, **p, **seen}, {"y": y, "c": last})
    hard = []

    def hard_gate(z):
        hard.append(z.reshape(-1))
        return np.clip(0.2 * z + 0.5, 0, 1)

    y, last = cells(1.5 * x, h, c, *products, bias, [0, 0, 0], hard_gate, 0.0)
    hard = np.abs(np.concatenate(hard))
    assert np.abs(hard - 2.5).min() > 0.02 and (hard > 2.5).any(), (hard.max(), np.abs(hard - 2.5).min())  # no kink nearby
    case("conv_lstm, hard gates", "torch conv2d and numpy", {"x": 1.5 * x, "h": h, "c": c, **p}, {"y": y, "c": last})

    # Five updates of loss = sum(w^2 / 2 + sin(3 w)), of a matrix and of a vector.
    w0, b0 = draw(70, 3, 2), draw(71, 3)

    def trajectory(make, schedule=None):
        w, b = t(w0).requires_grad_(), t(b0).requires_grad_()
        optimizer = make(w, b)
        scheduler = schedule(optimizer) if schedule else None
        for _ in range(5):
            optimizer.zero_grad()
            sum((v * v / 2 + torch.sin(3 * v)).sum() for v in (w, b)).backward()
            optimizer.step()
            if scheduler: scheduler.step()
        return {"w": w.detach().numpy(), "b": b.detach().numpy()}

    O = torch.optim
    for name, make in {
        "sgd": lambda w, b: O.SGD([w, b], 0.1),
        "momentum": lambda w, b: O.SGD([w, b], 0.1, momentum=0.9),
        "rmsprop": lambda w, b: O.RMSprop([w, b], 0.01, alpha=0.9, eps=1e-4),
        "adam": lambda w, b: O.Adam([w, b], 0.05, betas=(0.5, 0.9), eps=1e-4),
        "adamw": lambda w, b: O.AdamW([{"params": [w]}, {"params": [b], "weight_decay": 0}], 0.05, betas=(0.9, 0.999),
                                      eps=1e-4, weight_decay=0.1),
    }.items():
        case("optimizer " + name, "torch.optim", {"w": w0, "b": b0}, trajectory(make))
    halves = lambda o: O.lr_scheduler.ExponentialLR(o, 0.5)
    case("optimizer sgd, exponential rate", "torch.optim", {"w": w0, "b": b0}, trajectory(lambda w, b: O.SGD([w, b], 0.1), halves))
    case("optimizer adam, exponential rate", "torch.optim", {"w": w0, "b": b0},
         trajectory(lambda w, b: O.Adam([w, b], 0.05, betas=(0.5, 0.9), eps=1e-4), halves))

    def rates(make, steps):
        optimizer = O.SGD([torch.zeros(1, requires_grad=True)], 0.1)
        scheduler, got = make(optimizer), []
        for _ in range(steps):
            got.append(optimizer.param_groups[0]["lr"])
            optimizer.step(), scheduler.step()
        return np.array(got)

    S = O.lr_scheduler
    steps = np.arange(12.0)
    for name, make in {
        "piecewise": lambda o: S.MultiStepLR(o, [3, 7], 0.1),
        "linear": lambda o: S.LinearLR(o, 1.0, 0.25, 8),
        "warm-up": lambda o: S.LinearLR(o, 0.25, 1.0, 3),
    }.items():
        case("rate " + name, "torch.optim.lr_scheduler", {"steps": steps}, {"rates": rates(make, 12)})


def with_tensorflow():
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(1)

    def agreeing(name, inputs, outputs, single):  # numpy's figures, which tensorflow confirms in float32
        for key, value in single.items():
            assert np.abs(np.array(value) - outputs[key]).max() < 1e-6 * np.abs(outputs[key]).max(), (name, value, outputs[key])
        case(name, "numpy; tensorflow's float32 agrees to 1e-6", inputs, outputs)

    x, w, b = draw(80, 2, 6, 5, 2), draw(81, 5, 3, 2, 3), draw(82, 3)
    y = tf.nn.conv2d(x, w, 2, "SAME") + b
    case("conv2d, same, stride 2", "tensorflow conv2d", {"x": x, "l/weight": w, "l/bias": b}, {"y": y.numpy()})
    x, w, b = draw(83, 1, 3, 4, 3), draw(84, 5, 5, 3, 2), draw(85, 2)
    mirrored = np.transpose(w[::-1, ::-1], (0, 1, 3, 2))  # tensorflow: [h, w, out, in]
    y = tf.nn.conv2d_transpose(x, mirrored, (1, 6, 8, 2), 2, "SAME") + b
    case("conv2d_transposed, same", "tensorflow conv2d_transpose", {"x": x, "l/weight": w, "l/bias": b}, {"y": y.numpy()})
    y = tf.nn.conv2d_transpose(x, mirrored, (1, 9, 11, 2), 2, "VALID") + b
    case("conv2d_transposed, valid", "tensorflow conv2d_transpose", {"x": x, "l/weight": w, "l/bias": b}, {"y": y.numpy()})
    x = distinct(86, 2, 6, 5, 2)
    case("max_pool, same", "tensorflow max_pool2d", {"x": x}, {"y": tf.nn.max_pool2d(x, 3, 2, "SAME").numpy()})
    case("average_pool, same", "tensorflow avg_pool2d", {"x": x}, {"y": tf.nn.avg_pool2d(x, 3, 2, "SAME").numpy()})

    x = draw(87, 2, 2, 1, 11, spread=3)
    for name, r, bias, alpha, beta in [("local_response_norm, tutorial", 4, 1.0, 0.001 / 9, 0.75),
                                       ("local_response_norm", 2, 0.5, 0.3, 0.6)]:
        y = np.empty_like(x)
        for c in range(11):
            near = x[..., max(0, c - r):c + r + 1]
            y[..., c] = x[..., c] / (bias + alpha * (near * near).sum(-1)) ** beta
        single = tf.nn.local_response_normalization(x.astype(np.float32), r, bias, alpha, beta).numpy()
        agreeing(name, {"x": x}, {"y": y}, {"y": single})

    w0, b0 = draw(70, 3, 2), draw(71, 3)
    w, b = tf.Variable(w0), tf.Variable(b0)
    optimizer = tf.compat.v1.train.RMSPropOptimizer(0.01, epsilon=1e-4)
    for _ in range(5):
        with tf.GradientTape() as tape:
            loss = sum(tf.reduce_sum(v * v / 2 + tf.sin(3 * v)) for v in (w, b))
        optimizer.apply_gradients(zip(tape.gradient(loss, [w, b]), [w, b]))

    def rms(v):
        square = np.ones_like(v)
        for _ in range(5):
            g = v + 3 * np.cos(3 * v)
            square = 0.9 * square + 0.1 * g * g
            v = v - 0.01 * g / np.sqrt(square + 1e-4)
        return v

    agreeing("optimizer rmsprop of tensorflow 1", {"w": w0, "b": b0}, {"w": rms(w0), "b": rms(b0)}, {"w": w.numpy(), "b": b.numpy()})

    # What an average of w becomes while w takes five values.
    values = np.stack([w0 * n for n in range(2, 7)])
    for name, decay, warm in [("average", 0.3, False), ("average, warm-up", 0.9999, True), ("average, past its warm-up", 0.15, True)]:
        w, updates = tf.Variable(w0.astype(np.float32)), tf.Variable(0.0)
        average = tf.train.ExponentialMovingAverage(decay, num_updates=updates if warm else None)
        average.apply([w])  # creates the average, which starts as w
        shadow = w0
        for n in range(5):
            w.assign(values[n]), updates.assign(float(n))
            average.apply([w])
            d = min(decay, (1 + n) / (10 + n)) if warm else decay
            shadow = d * shadow + (1 - d) * values[n]
        agreeing(name, {"w": w0, "values": values}, {"w": shadow}, {"w": average.average(w).numpy()})

    g = [draw(90, 3, 2), draw(91, 4)]
    for name, limit in [("clip_by_global_norm", 1.5), ("clip_by_global_norm, below", 50.0)]:
        clipped, size = tf.clip_by_global_norm(g, limit)
        case(name, "tensorflow", {"a": g[0], "b": g[1]}, {"a": clipped[0].numpy(), "b": clipped[1].numpy(), "norm": size.numpy()})

    K = tf.keras.optimizers.schedules
    steps = np.arange(12.0)
    for name, schedule, r in [
        ("staircase", K.ExponentialDecay(0.1, 3, 0.1, staircase=True), 0.1 * 0.1 ** np.floor(steps / 3)),
        ("exponential", K.ExponentialDecay(0.1, 5, 0.5), 0.1 * 0.5 ** (steps / 5)),
        ("cosine", K.CosineDecay(0.1, 8, alpha=0.1),
         0.1 * (0.1 + 0.9 * (1 + np.cos(np.pi * np.minimum(steps / 8, 1))) / 2)),
    ]:
        agreeing("rate " + name, {"steps": steps}, {"rates": r}, {"rates": [float(schedule(step)) for step in steps]})


{"torch": with_torch, "tensorflow": with_tensorflow}[sys.argv[1]]()
everything = json.load(open(path)) if os.path.exists(path) else {}
everything.update(cases)
with open(path, "w") as out:
    out.write("{\n" + ",\n".join(json.dumps(k) + ": " + json.dumps(everything[k]) for k in sorted(everything)) + "\n}\n")
print(len(cases), "cases,", len(everything), "in all")
