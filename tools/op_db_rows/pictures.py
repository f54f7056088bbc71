"""Operations on pictures and volumes."""
from .form import ROWS, NoForm, Row, is_array, only, row

@row("nn.functional.grid_sample", factor=10)
def _(haul, x, grid, mode="bilinear", padding_mode="zeros", align_corners=False):
    return haul.grid_sample(x, grid, mode, padding=padding_mode, align_corners=bool(align_corners))


def interpolated(haul, x, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
                 antialias=False):
    if recompute_scale_factor:
        raise NoForm("recompute_scale_factor")
    mode = {"trilinear": "bilinear", "linear": "bilinear"}.get(mode, mode).replace("-", "_")
    given = {} if size is None else {"size": size}
    if scale_factor is not None:
        given["scale"] = scale_factor
    return haul.interpolate(x, mode=mode, align_corners=bool(align_corners), antialias=antialias, **given)


for mode in ("area", "bicubic", "bilinear", "linear", "nearest", "nearest-exact", "trilinear"):
    ROWS["nn.functional.interpolate." + mode] = Row(interpolated, factor=10)


MODES, PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


@row("grid_sampler_2d", "grid_sampler_3d", factor=10)
def _(haul, x, grid, mode, padding, align_corners):
    return haul.grid_sample(x, grid, MODES[mode], padding=PADDINGS[padding], align_corners=align_corners)


def per_axis(x, size):
    return [size] * (len(x.shape) - 2) if isinstance(size, int) else size


@row("nn.functional.upsample_bilinear", factor=10)
def _(haul, x, size=None, scale_factor=None):
    return interpolated(haul, x, per_axis(x, size), scale_factor, "bilinear", True)


@row("nn.functional.upsample_nearest", factor=10)
def _(haul, x, size=None, scale_factor=None):
    return interpolated(haul, x, per_axis(x, size), scale_factor)


@row("_upsample_bilinear2d_aa", factor=10)
def _(haul, x, output_size, align_corners, scale_factors=None, scales_h=None, scales_w=None):
    if (scale_factors, scales_h, scales_w) != (None, None, None):
        raise NoForm("scale factors")
    return interpolated(haul, x, output_size, mode="bilinear", align_corners=align_corners, antialias=True)
