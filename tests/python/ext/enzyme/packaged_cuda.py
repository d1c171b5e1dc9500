"""CUDA C++ kernels of packages, which are read from their files where these are installed.

`packages.txt` lists the packages. A kernel is used as it was published, with these changes:
functions for the host, specialisations for half precision and lines that include headers are left
out, `assert` is empty, functions such as `expf` lose their last letter, and in some files `float`
becomes `T`, so that float64 is computed in double precision.
"""

import importlib.util
import math
import re
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kernbridge import cuda_kernel
from needs_enzyme import assert_derivatives, is_real

# Copyright (c) OpenMMLab. All rights reserved. Apache License 2.0.
MMCV = "mmcv/ops/csrc/common/cuda"
# Copyright (c) 2022 Ruilong Li, MIT License.
NERFACC = "nerfacc/cuda/csrc"
# Its authors name no copyright beside the licence. Apache License 2.0.
GSPLAT = "gsplat/cuda/csrc"

BOUNDS = {"float32": 2e-4, "float64": 1e-8}  # of the largest element, relative to 1 + its size
WEIGHTS = (3 / 4, -3 / 20, 1 / 60)  # of central differences of order 6
BEFORE = """#undef assert
#define assert(...) ((void)0)
#ifdef __CUDACC_RTC__
typedef int int32_t;
typedef unsigned uint32_t;
typedef long long int64_t;
#define FLT_MIN 1.17549435e-38f
#define FLT_MAX 3.40282347e+38f
#define M_PI 3.14159265358979323846
#endif
typedef {T} T;
"""
OF_FLOATS = re.compile(r"\b(exp|cos|sin|pow|fmax|fmin|floor|ceil|tan|tanh|sqrt)f\(")
LEFT_OUT = re.compile(
    r"^ *#(?:include|pragma once)[^\n]*$|^inline int GET_BLOCKS.*?^}$"
    r"|^(?:torch::Tensor|void launch)[^;{]*\{.*?^}$"
    r"|^#if __CUDA_ARCH__ .*?^#endif[^\n]*$"
    r"|^template <>\n__global__ void \w+\([^{]*\bphalf\b[^{]*\{.*?^}$",
    re.M | re.S,
)


class Case(NamedTuple):
    """A kernel of a file: its arrays and numbers, the shapes of its outputs, and its launch."""

    files: tuple[str, ...]
    name: str
    arguments: tuple  # arrays of float64 become arrays of the type that is tested
    outs: tuple  # shapes of real outputs, or ShapeDtypeStruct
    attrs: dict
    launch: dict
    step: float = 1e-3  # of central differences
    renames_floats: bool = False
    replaced: tuple[tuple[str, str], ...] = ()  # other texts of the source, and by what
    params: str | None = None  # roles that the source does not show
    reference: Any = None  # the same function in JAX


CASES = {}


def case(place, name, arguments, outs, attrs, n=None, *, files=(), more="", **options):
    launch = {"launch_dims": n, "threads_per_block": 32} if n else options.pop("launch")
    key = f"{place.split('/')[0]}:{name.partition('<')[0]}{more}"
    CASES[key] = Case((*files, place), name, arguments, outs, attrs, launch, **options)


def operation(key, dtype):
    """The operation of a kernel, and its arguments."""
    made, c = CASES[key], {"float32": "float", "float64": "double"}[dtype]
    text = "".join(_source(place) for place in made.files)
    for old, new in made.replaced:
        text = text.replace(old, new)
    if made.renames_floats:
        text = re.sub(r"\bfloat\b", "T", text)
    op = cuda_kernel(
        BEFORE.format(T=c) + text,
        re.sub(r"\bT\b", c, made.name),
        tuple(jax.ShapeDtypeStruct(o, dtype) if isinstance(o, tuple) else o for o in made.outs),
        attrs=made.attrs,
        params=made.params,
        zero_outputs=True,
        derivatives="enzyme",
        **made.launch,
    )
    return op, [a.astype(dtype) if a.dtype == np.float64 else a for a in made.arguments]


def assert_central_differences(key, dtype):
    """Compare gradients and tangents of the sum of all outputs, with weights, by differences.

    They are the differences of the kernel in double precision.
    """
    rng = np.random.default_rng(1)
    outs = [o for o in CASES[key].outs if isinstance(o, tuple)]
    weights = [rng.normal(size=shape) for shape in outs]

    def total(op):
        def loss(*given):
            reals = filter(is_real, op(*given))
            return sum((w * y).sum() for w, y in zip(weights, reals, strict=True))

        return loss

    precise, arguments = operation(key, "float64")
    value, step = jax.jit(total(precise)), CASES[key].step
    which = [i for i, a in enumerate(arguments) if is_real(a)]
    slopes = []
    for i in which:
        units = np.eye(arguments[i].size).reshape(-1, *arguments[i].shape)
        slope = 0.0
        for k, weight in enumerate(WEIGHTS, 1):
            for sign in (1, -1):
                moved = [arguments[i] + sign * k * step * unit for unit in units]
                values = [value(*arguments[:i], m, *arguments[i + 1 :]) for m in moved]
                slope = slope + sign * weight * np.array(values) / step
        slopes.append(slope.reshape(arguments[i].shape))
    op, given = operation(key, dtype)
    bound = BOUNDS[dtype] * (1 + max(np.abs(s).max() for s in slopes))
    for ours, theirs in zip(jax.grad(total(op), which)(*given), slopes, strict=True):
        assert ours.dtype == dtype
        worst = np.abs(ours - theirs).max()
        assert worst <= bound, (key, worst, ours, theirs)
    directions = [rng.normal(size=a.shape) for a in slopes]

    def of_reals(*reals):
        every = list(given)
        for i, x in zip(which, reals, strict=True):
            every[i] = x
        return total(op)(*every)

    tangents = [jnp.asarray(d, dtype) for d in directions]
    along = jax.jvp(of_reals, [given[i] for i in which], tangents)[1]
    slope = sum((d * s).sum() for d, s in zip(directions, slopes, strict=True))
    assert abs(along - slope) <= 10 * bound, (key, along, slope)


def assert_jax(key, dtype):
    op, given = operation(key, dtype)
    assert_derivatives(op, CASES[key].reference, *given)


def _source(place):
    package, _, path = place.partition("/")
    found = importlib.util.find_spec(package)
    if found is None:
        pytest.skip(f"the package {package} is not installed")
    text = (Path(found.submodule_search_locations[0]) / path).read_text()
    return OF_FLOATS.sub(r"\1(", LEFT_OUT.sub("", text)) + "\n"


def integers(high, *shape, dtype=np.int32):
    return rng.integers(0, high, shape).astype(dtype)


def mmcv(file, name, arguments, outs, attrs, n=None, **options):
    helper = (f"{MMCV}/common_cuda_helper.hpp",)
    case(f"{MMCV}/{file}.cuh", name, arguments, outs, attrs, n, files=helper, **options)


rng = np.random.default_rng(0)
normal = rng.normal
REGION = np.array([[0.5, 1.3, 2.1, 6.2, 5.4], [1.5, 0.4, 1.7, 4.3, 6.9]])  # image, corners
TURNED = np.array([[0.5, 3.7, 4.2, 3.1, 2.3, 0.4], [1.5, 4.4, 3.3, 2.7, 3.9, -0.7]])  # angles
IMAGES = {"channels": 2, "height": 8, "width": 9}
POOLED = {"pooled_height": 2, "pooled_width": 3}
BINS = (2, 2, 2, 3)

mmcv(
    "assign_score_withk_cuda_kernel",
    "assign_score_withk_forward_cuda_kernel<T>",
    (
        normal(size=(2, 5, 3, 4)),
        normal(size=(2, 5, 3, 4)),
        normal(size=(2, 4, 2, 3)),
        integers(5, 2, 4, 2, dtype=np.int64),
    ),
    ((2, 4, 4, 2),),
    {"B": 2, "N0": 5, "N1": 4, "M": 3, "K": 2, "O": 4, "aggregate": 0},
    64,
)
mmcv(
    "gather_points_cuda_kernel",
    "gather_points_forward_cuda_kernel<T>",
    (normal(size=(2, 3, 7)), integers(7, 2, 5)),
    ((2, 3, 5),),
    {"b": 2, "c": 3, "n": 7, "m": 5},
    launch={"grid": (1, 3, 2), "block": 8},
)
mmcv(
    "group_points_cuda_kernel",
    "group_points_forward_cuda_kernel<T>",
    (normal(size=(2, 3, 7)), integers(7, 2, 4, 5)),
    ((2, 3, 4, 5),),
    {"b": 2, "c": 3, "n": 7, "npoints": 4, "nsample": 5},
    launch={"grid": (1, 3, 2), "block": 32},
)
mmcv(
    "three_interpolate_cuda_kernel",
    "three_interpolate_forward_cuda_kernel<T>",
    (normal(size=(2, 3, 6)), integers(6, 2, 9, 3), rng.uniform(size=(2, 9, 3))),
    ((2, 3, 9),),
    {"b": 2, "c": 3, "m": 6, "n": 9},
    launch={"grid": (1, 3, 2), "block": 16},
)
mmcv(
    "three_interpolate_cuda_kernel",
    "three_interpolate_backward_cuda_kernel<T>",
    (normal(size=(2, 3, 9)), integers(6, 2, 9, 3), rng.uniform(size=(2, 9, 3))),
    ((2, 3, 6),),
    {"b": 2, "c": 3, "m": 6, "n": 9},
    launch={"grid": (1, 3, 2), "block": 16},
)
mmcv(
    "sigmoid_focal_loss_cuda_kernel",
    "sigmoid_focal_loss_forward_cuda_kernel<T>",
    (normal(size=(6, 4)), integers(4, 6, dtype=np.int64), rng.uniform(0.5, 2, 4)),
    ((6, 4),),
    {"nthreads": 24, "gamma": 2.0, "alpha": 0.25, "num_classes": 4},
    24,
)
mmcv(
    "softmax_focal_loss_cuda_kernel",
    "softmax_focal_loss_forward_cuda_kernel<T>",
    (rng.uniform(0.1, 0.9, (6, 4)), integers(4, 6, dtype=np.int64), rng.uniform(0.5, 2, 4)),
    ((6,),),
    {"nthreads": 6, "gamma": 1.5, "alpha": 0.25, "num_classes": 4},
    6,
)
mmcv(
    "tin_shift_cuda_kernel",
    "tin_shift_forward_cuda_kernel<T>",
    (normal(size=(2, 5, 4, 3)), np.array([[1, -1], [0, 2]], np.int32)),
    ((2, 5, 4, 3),),
    {"nthreads": 24, "batch_size": 2, "channels": 4, "t_size": 5, "hw_size": 3}
    | {"group_size": 2, "group_channel": 2},
    24,
)
mmcv(
    "carafe_naive_cuda_kernel",
    "carafe_naive_forward_cuda_kernel<T>",
    (normal(size=(1, 4, 3, 3)), normal(size=(1, 18, 6, 6))),
    ((1, 4, 6, 6),),
    {"nthreads": 144, "kernel_size": 3, "group_size": 2, "scale_factor": 2}
    | {"channels": 4, "height": 6, "width": 6},
    144,
)
mmcv(
    "stack_group_points_cuda_kernel",
    "stack_group_points_forward_cuda_kernel<T>",
    (
        normal(size=(7, 3)),
        np.array([3, 4], np.int32),
        integers(3, 5, 2),
        np.array([2, 3], np.int32),
    ),
    ((5, 3, 2),),
    {"b": 2, "c": 3, "m": 5, "nsample": 2},
    30,
)
mmcv(
    "bezier_align_cuda_kernel",
    "bezier_align_forward_cuda_kernel<T>",
    (normal(size=(2, 2, 8, 9)), np.concatenate([[[0.5], [1.5]], rng.uniform(1, 7, (2, 16))], 1)),
    (BINS,),
    {"nthreads": 24, "spatial_scale": 0.9, "sampling_ratio": 2, "aligned": True} | POOLED | IMAGES,
    24,
    step=1e-4,
)
mmcv(
    "border_align_cuda_kernel",
    "border_align_forward_cuda_kernel<T>",
    (normal(size=(1, 8, 8, 9)), np.array([[[0.7, 1.2, 5.3, 6.1], [1.4, 0.6, 7.2, 4.8]]])),
    ((1, 2, 2, 4), jax.ShapeDtypeStruct((1, 2, 2, 4), "int32")),
    {"nthreads": 4, "channels": 2, "box_size": 2, "height": 8, "width": 9, "pool_size": 3},
    launch={"grid": 1, "block": (8, 4)},
    step=1e-4,
)
CONVOLUTION = {"height": 5, "width": 6, "kernel_h": 3, "kernel_w": 2, "pad_h": 1, "pad_w": 0}
CONVOLUTION |= {"stride_h": 1, "stride_w": 2, "dilation_h": 1, "dilation_w": 1, "batch_size": 2}
CONVOLUTION |= {"channel_per_deformable_group": 1, "num_channels": 2, "deformable_group": 2}
CONVOLUTION |= {"height_col": 5, "width_col": 3}
mmcv(
    "deform_conv_cuda_kernel",
    "deformable_im2col_gpu_kernel<T>",
    (normal(size=(2, 2, 5, 6)), rng.uniform(-0.9, 0.9, (2, 2, 12, 5, 3))),
    ((12, 2, 5, 3),),
    {"n": 60} | CONVOLUTION,
    60,
    step=1e-5,
)
mmcv(
    "modulated_deform_conv_cuda_kernel",
    "modulated_deformable_im2col_gpu_kernel<T>",
    (
        normal(size=(2, 2, 5, 6)),
        rng.uniform(-0.9, 0.9, (2, 2, 12, 5, 3)),
        rng.uniform(size=(2, 2, 6, 5, 3)),
    ),
    ((12, 2, 5, 3),),
    {"n": 60} | CONVOLUTION,
    60,
    step=1e-5,
)
mmcv(
    "deform_roi_pool_cuda_kernel",
    "deform_roi_pool_forward_cuda_kernel<T>",
    (normal(size=(2, 2, 8, 9)), REGION, normal(size=(2, 2, 2, 3))),
    (BINS,),
    {"nthreads": 24, "spatial_scale": 0.9, "sampling_ratio": 2, "gamma": 0.1} | POOLED | IMAGES,
    24,
    step=1e-4,
)
mmcv(
    "masked_conv2d_cuda_kernel",
    "MaskedIm2colForward<T>",
    (normal(size=(3, 5, 6)), integers(5, 7, dtype=np.int64), integers(6, 7, dtype=np.int64)),
    ((3, 3, 2, 7),),
    {"n": 21, "height": 5, "width": 6, "kernel_h": 3, "kernel_w": 2, "pad_h": 1, "pad_w": 1}
    | {"mask_cnt": 7},
    21,
)
mmcv(
    "ms_deform_attn_cuda_kernel",
    "ms_deformable_im2col_gpu_kernel<T>",
    (
        normal(size=(2, 26, 2, 3)),
        np.array([[4, 5], [2, 3]]),
        np.array([0, 20]),
        rng.uniform(size=(2, 4, 2, 2, 3, 2)),
        rng.uniform(size=(2, 4, 2, 2, 3)),
    ),
    ((2, 4, 2, 3),),
    {"n": 48, "batch_size": 2, "spatial_size": 26, "num_heads": 2, "channels": 3}
    | {"num_levels": 2, "num_query": 4, "num_point": 3},
    48,
    step=2e-6,
)
mmcv(
    "prroi_pool_cuda_kernel",
    "prroi_pool_forward_cuda_kernel<T>",
    (normal(size=(2, 2, 8, 9)), REGION),
    (BINS,),
    {"nthreads": 24, "spatial_scale": 0.9} | POOLED | IMAGES,
    24,
    step=1e-4,
)
mmcv(
    "psamask_cuda_kernel",
    "psamask_collect_forward_cuda<T>",
    (normal(size=(2, 15, 3, 4)),),
    ((2, 12, 3, 4),),
    {"nthreads": 24, "h_feature": 3, "w_feature": 4, "h_mask": 3, "w_mask": 5}
    | {"half_h_mask": 1, "half_w_mask": 2},
    24,
)
ALIGN = {"nthreads": 24, "spatial_scale": 0.9, "sampling_ratio": 2, "aligned": True}
for mode, name in ((0, " (greatest)"), (1, " (means)")):
    mmcv(
        "roi_align_cuda_kernel",
        "roi_align_forward_cuda_kernel<T>",
        (normal(size=(2, 2, 8, 9)), REGION),
        (BINS, BINS, BINS),
        ALIGN | POOLED | IMAGES | {"pool_mode": mode},
        24,
        step=1e-4,
        more=name,
    )
mmcv(
    "roi_align_rotated_cuda_kernel",
    "roi_align_rotated_forward_cuda_kernel<T>",
    (normal(size=(2, 2, 8, 9)), TURNED),
    (BINS,),
    ALIGN | POOLED | IMAGES | {"clockwise": True},
    24,
    step=1e-4,
)
mmcv(
    "riroi_align_rotated_cuda_kernel",
    "riroi_align_rotated_forward_cuda_kernel<T>",
    (normal(size=(2, 8, 8, 9)), TURNED),
    ((2, 2, 4, 2, 3),),
    {"nthreads": 96, "spatial_scale": 0.9, "num_samples": 2, "clockwise": False}
    | {"num_orientations": 4}
    | POOLED
    | IMAGES,
    96,
    step=1e-4,
)
mmcv(
    "roi_pool_cuda_kernel",
    "roi_pool_forward_cuda_kernel<T>",
    (normal(size=(2, 2, 8, 9)), REGION),
    (BINS, jax.ShapeDtypeStruct(BINS, "int32")),
    {"nthreads": 24, "spatial_scale": 0.9} | POOLED | IMAGES,
    24,
)
mmcv(
    "rotated_feature_align_cuda_kernel",
    "rotated_feature_align_forward_kernel<T>",
    (normal(size=(1, 2, 4, 5)), rng.uniform(0.2, 2.8, (1, 4, 5, 5))),
    ((1, 2, 4, 5),),
    {"nthreads": 40, "points": 5, "spatial_scale": 0.9, "channels": 2, "height": 4, "width": 5},
    40,
    step=1e-5,
)
mmcv(
    "bbox_overlaps_cuda_kernel",
    "bbox_overlaps_cuda_kernel<T>",
    tuple(
        np.concatenate([c, c + rng.uniform(1, 3, c.shape)], 1)
        for c in (rng.uniform(0, 2, (n, 2)) for n in (5, 3))
    ),
    ((5, 3),),
    {"num_bbox1": 5, "num_bbox2": 3, "mode": 0, "aligned": False, "offset": 1},
    15,
    step=1e-4,
    replaced=((", 0.f)", ", T(0))"),),  # NVRTC has no fmax of a double and a float
)
mmcv(
    "three_nn_cuda_kernel",
    "three_nn_forward_cuda_kernel<T>",
    (normal(size=(2, 4, 3)), normal(size=(2, 6, 3))),
    ((2, 4, 3), jax.ShapeDtypeStruct((2, 4, 3), "int32")),
    {"b": 2, "n": 4, "m": 6},
    launch={"grid": (1, 2), "block": 8},
    step=1e-4,
)
mmcv(
    "active_rotated_filter_cuda_kernel",
    "active_rotated_filter_forward_cuda_kernel<T>",
    (normal(size=(2, 3, 5)), np.stack([rng.permutation(5) + 1 for _ in range(4)], 1).astype("i4")),
    ((2, 4, 3, 5),),
    {"nthreads": 30, "num_input_planes": 3, "num_output_planes": 2, "num_orientations": 1}
    | {"num_rotations": 4, "nEntry": 5},
    30,
)
mmcv(
    "chamfer_distance_cuda_kernel",
    "chamfer_distance_forward_cuda_kernel<T>",
    (normal(size=(2, 6, 2)), normal(size=(2, 9, 2))),
    ((2, 6), jax.ShapeDtypeStruct((2, 6), "int32")),
    {"b": 2, "n": 6, "m": 9},
    launch={"grid": (2, 1), "block": 32},
    step=1e-4,
    replaced=(("MAX_SHARED_SCALAR_T 6144", "MAX_SHARED_SCALAR_T 1024"),),  # and its shadow fits
)
mmcv(
    "sync_bn_cuda_kernel",
    "sync_bn_forward_mean_cuda_kernel<T>",
    (normal(size=(3, 2, 10)),),
    ((2,),),
    {"num": 3, "channels": 2, "spatial": 10},
    launch={"grid": 2, "block": 32},
    renames_floats=True,
)
mmcv(
    "sync_bn_cuda_kernel",
    "sync_bn_forward_var_cuda_kernel<T>",
    (normal(size=(3, 2, 10)), normal(size=2)),
    ((2,),),
    {"num": 3, "channels": 2, "spatial": 10},
    launch={"grid": 2, "block": 32},
    renames_floats=True,
)
case(
    f"{NERFACC}/camera.cu",
    "nerfacc::device::opencv_lens_undistortion",
    (rng.uniform(-0.5, 0.5, (6, 2)), rng.uniform(-0.1, 0.1, (6, 8))),
    ((6, 2),),
    {"N": 6, "n_params": 8, "eps": 1e-12, "max_iterations": 10},
    6,
    files=(f"{NERFACC}/include/utils_camera.cuh",),
    # NVRTC has no std::tan, and names what has no name in another way for each architecture.
    replaced=(("std::tan", "tan"), ("namespace {", "namespace nerfacc {")),
    renames_floats=True,
)
case(
    f"{GSPLAT}/RelocationCUDA.cu",
    "gsplat::relocation_kernel<T>",
    (
        rng.uniform(0.2, 0.8, 5),
        rng.uniform(size=(5, 3)),
        integers(3, 5) + 1,
        np.array([[math.comb(i, j) * 1.0 for j in range(4)] for i in range(4)]),
    ),
    ((5,), (5, 3)),
    {"N": 5, "n_max": 4},
    5,
    renames_floats=True,
    replaced=(("1.0f / n_idx", "T(1) / n_idx"),),  # NVRTC has no pow of a float and a double
    params="attr.N arg arg arg arg attr.n_max ret ret",
)


def in_jax(name):
    """Add the same function in JAX to the case of this name."""

    def added(reference):
        key = next(key for key in CASES if name in key)
        CASES[key] = CASES[key]._replace(reference=reference)
        return reference

    return added


@in_jax("assign_score_withk")
def assigned_scores(points, centers, scores, at):
    some = jax.vmap(lambda p, at: p[at])
    near = some(points, at) - some(centers, at[:, :, :1])
    return (jnp.einsum("bnkmo,bnkm->bonk", near, scores),)


@in_jax("gather_points")
def gathered(points, at):
    return (jax.vmap(lambda p, at: p[:, at])(points, at),)


@in_jax("group_points_forward")
def grouped(points, at):
    return gathered(points, at)


@in_jax("three_interpolate_forward")
def interpolated(points, at, weights):
    return (jnp.einsum("bcni,bni->bcn", jax.vmap(lambda p, at: p[:, at])(points, at), weights),)


@in_jax("three_interpolate_backward")
def spread(slopes, at, weights):
    def of_one(slopes, at, weights):
        return jnp.zeros((3, 6), slopes.dtype).at[:, at].add(slopes[:, :, None] * weights)

    return (jax.vmap(of_one)(slopes, at, weights),)


@in_jax("sigmoid_focal_loss")
def focal_loss(x, target, weight):
    p, is_it = jax.nn.sigmoid(x), jax.nn.one_hot(target, 4, dtype=x.dtype)
    positive = 0.25 * (1 - p) ** 2 * jax.nn.log_sigmoid(x)
    negative = 0.75 * p**2 * jax.nn.log_sigmoid(-x)
    return (-(is_it * positive + (1 - is_it) * negative) * weight[target][:, None],)


@in_jax("softmax_focal_loss")
def focal_loss_of_shares(p, target, weight):
    p = p[np.arange(6), target]
    return (-0.25 * (1 - p) ** 1.5 * jnp.log(p) * weight[target],)


@in_jax("psamask")
def attention(masks):
    out = jnp.zeros((2, 12, 3, 4), masks.dtype)
    masks = masks.reshape(2, 3, 5, 3, 4)
    for a, b, h, w in np.ndindex(3, 5, 3, 4):
        y, x = a + h - 1, b + w - 2
        if 0 <= y < 3 and 0 <= x < 4:
            out = out.at[:, 4 * y + x, h, w].set(masks[:, a, b, h, w])
    return (out,)


@in_jax("bbox_overlaps")
def overlaps(a, b):
    a, b = a[:, None], b[None]
    low, high = jnp.maximum(a[..., :2], b[..., :2]), jnp.minimum(a[..., 2:], b[..., 2:])
    shared = jnp.maximum(high - low + 1, 0).prod(-1)
    areas = [(x[..., 2:] - x[..., :2] + 1).prod(-1) for x in (a, b)]
    return (shared / (areas[0] + areas[1] - shared),)


def squared_distances(a, b):
    return ((a[:, :, None] - b[:, None]) ** 2).sum(-1)


@in_jax("three_nn")
def three_nearest(unknown, known):
    far, at = jax.lax.top_k(-squared_distances(unknown, known), 3)
    return -far, at.astype(np.int32)


@in_jax("chamfer_distance")
def nearest(a, b):
    between = squared_distances(a, b)
    return between.min(-1), between.argmin(-1).astype(np.int32)


@in_jax("sync_bn_forward_mean")
def means(x):
    return (x.mean((0, 2)),)


@in_jax("sync_bn_forward_var")
def variances(x, mean):
    return (((x - mean[:, None]) ** 2).mean((0, 2)),)
