#!/usr/bin/env python3
"""Makes the small files beside it with the formats' own libraries: NumPy, safetensors, Pillow, gzip, zlib.

The tests in tests/engine/io_*.cpp know what is in them; tests/fuzz starts from them.
"""
import gzip
import io
import pathlib
import struct
import zlib

import numpy as np
from numpy.lib import format as npy
from PIL import Image
from safetensors import TensorSpec, serialize

here = pathlib.Path(__file__).parent


def put(name, data):
    (here / name).write_bytes(data)


def npy_bytes(array, version=(1, 0)):
    out = io.BytesIO()
    npy.write_array(out, array, version=version)
    return out.getvalue()


# 0 1 2 ... in the order of the shape, minus 2 where the type has a sign.
def counting(dtype, shape):
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    return (values % 2 if dtype == "b1" else values if dtype[0] == "u" else values - 2).astype(dtype)


for dtype in ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u4", "u2", "u1", "b1"]:
    put(f"npy/{dtype}.npy", npy_bytes(counting(dtype, (2, 3))))
    if dtype[1] != "1":
        put(f"npy/{dtype}_big_endian.npy", npy_bytes(counting(dtype, (2, 3)).astype(">" + dtype)))
put("npy/fortran.npy", npy_bytes(np.asfortranarray(counting("i4", (2, 3, 4)))))
put("npy/fortran_big_endian.npy", npy_bytes(np.asfortranarray(counting("f8", (3, 2))).astype(">f8", order="F")))
put("npy/version_2.npy", npy_bytes(counting("f4", (5,)), (2, 0)))
put("npy/version_3.npy", npy_bytes(counting("f4", (5,)), (3, 0)))
put("npy/scalar.npy", npy_bytes(np.array(1.5)))
put("npy/nothing.npy", npy_bytes(np.zeros((0, 4), "f4")))
put("npy/rank_8.npy", npy_bytes(counting("i2", (1, 2, 1, 2, 1, 2, 1, 2))))
put("npy/u8_refused.npy", npy_bytes(np.arange(2, dtype="u8")))
put("npy/complex_refused.npy", npy_bytes(np.array([1j])))
put("npy/text_refused.npy", npy_bytes(np.array(["ab"])))
put("npy/records_refused.npy", npy_bytes(np.zeros(2, [("x", "f4"), ("y", "i4")])))
put("npy/objects_refused.npy", npy_bytes(np.array([None], dtype=object)))
put("npy/dates_refused.npy", npy_bytes(np.array(["2000-01-01"], dtype="M8[D]")))

arrays = {"weight": counting("f4", (2, 3)), "step": np.array(7, "i8"), "critic/bias": counting("f2", (4,))}
for name, save in [("stored", np.savez), ("deflated", np.savez_compressed)]:
    out = io.BytesIO()
    save(out, **arrays)
    put(f"npz/{name}.npz", out.getvalue())


def safetensors(arrays, metadata):  # {name: (dtype, array)}; the arrays live on until serialize has read them
    return serialize({name: TensorSpec(dtype=dtype, shape=a.shape, data_ptr=a.ctypes.data, data_len=a.nbytes)
                      for name, (dtype, a) in arrays.items()},
                     metadata)


tensors = {name: (long, counting(dtype, (2, 3)))
           for name, long, dtype in [("F64", "float64", "f8"), ("F32", "float32", "f4"), ("F16", "float16", "f2"),
                                     ("I64", "int64", "i8"), ("I32", "int32", "i4"), ("I16", "int16", "i2"),
                                     ("I8", "int8", "i1"), ("U32", "uint32", "u4"), ("U8", "uint8", "u1"),
                                     ("BOOL", "bool", "b1")]}
# The upper halves of -2 -1 0 1 2 3 as float32.
tensors["BF16"] = ("bfloat16", (counting("f4", (2, 3)).view("u4") >> 16).astype("u2"))
put("safetensors/every.safetensors", safetensors(tensors, {"note": "every dtype"}))
put("safetensors/u16_refused.safetensors", safetensors({"a": ("uint16", np.zeros(1, "u2"))}, None))
put("checkpoint/small.safetensors",
    safetensors({"critic/bias": ("float32", np.array([1, -2], "f4"))}, {"iteration": "12", "recipe": "a recipe"}))

# 2 x 3 of bytes: 1 2 3 253 254 255.
idx = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 253, 254, 255])
put("idx/u8.idx", idx)
put("idx/u8.idx.gz", gzip.compress(idx, mtime=0))
put("idx/i16.idx", bytes([0, 0, 0x0B, 1, 0, 0, 0, 2, 1, 2, 0xFF, 0xFE]))
put("idx/f64.idx", bytes([0, 0, 0x0E, 1, 0, 0, 0, 1]) + struct.pack(">d", -1.5))

# Two digits: pixel k is k % 17 and 16 - k % 17; labels 3 and 9.
lines = [[k % 17 for k in range(64)] + [3], [16 - k % 17 for k in range(64)] + [9]]
text = "".join(",".join(map(str, line)) + "\n" for line in lines).encode()
put("digits/two.csv", text)
put("digits/two.csv.gz", gzip.compress(text, mtime=0))

# One record: label 7, byte k is k * k % 251.
put("cifar10/one.bin", bytes([7]) + bytes(k * k % 251 for k in range(3072)))

# Sample c of the pixel in row y and column x is 40 y + 10 x + c.
pixels = np.fromfunction(lambda y, x, c: 40 * y + 10 * x + c, (4, 6, 4)).astype("u1")
for channels, mode in [(1, "L"), (2, "LA"), (3, "RGB"), (4, "RGBA")]:
    picture = pixels[:, :, 0] if channels == 1 else pixels[:, :, :channels]
    Image.frombytes(mode, (6, 4), picture.tobytes()).save(here / f"image/{mode.lower()}.png")
checks = bytes(255 * ((x + y) % 2) for y in range(4) for x in range(6))
Image.frombytes("L", (6, 4), checks).convert("1").save(here / "image/one_bit.png")
palette = Image.new("P", (6, 4))
palette.putpalette([0, 0, 0, 10, 20, 30, 255, 128, 0])
palette.putdata([(x + y) % 3 for y in range(4) for x in range(6)])
palette.save(here / "image/palette.png")
Image.frombytes("I;16", (2, 1), b"\1\2\3\4").save(here / "image/sixteen_refused.png")


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


# Adam7, which Pillow does not write: the passes' first column, first row, steps.
adam7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
rows = [b"\0" + pixels[y, x0::dx, 0].tobytes() for x0, y0, dx, dy in adam7 for y in range(y0, 4, dy) if x0 < 6]
put("image/interlaced.png", b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 6, 4, 8, 0, 0, 0, 1)) +
    chunk(b"gAMA", struct.pack(">I", 100000)) + chunk(b"IDAT", zlib.compress(b"".join(rows))) + chunk(b"IEND", b""))

# One colour a picture, which JPEG keeps but for a rounding.
Image.new("L", (9, 7), 100).save(here / "image/grey.jpg", quality=95)
Image.new("RGB", (9, 7), (200, 100, 50)).save(here / "image/rgb.jpg", quality=95)
Image.new("RGB", (9, 7), (200, 100, 50)).save(here / "image/progressive.jpg", quality=95, progressive=True)
Image.new("CMYK", (9, 7), (20, 30, 40, 50)).save(here / "image/cmyk_refused.jpg")
