"""Fourier transforms: complex numbers are pairs in the last axis."""
from .form import ROWS, NoForm, Row, is_array, only, row

def as_pairs(haul, x):
    return haul.stack([x, haul.zeros_like(x)], -1)


for name, takes_pairs in (("fft", True), ("ifft", True), ("rfft", False), ("ihfft", False), ("irfft", True),
                          ("hfft", True)):
    def transform(haul, x, n=None, dim=-1, norm=None, name=name, takes_pairs=takes_pairs, **k):
        only(k)
        z = as_pairs(haul, x) if takes_pairs else x
        axis = dim + len(x.shape) if dim < 0 else dim
        return getattr(haul, name)(z, axis, n=n, norm=norm)
    ROWS["fft." + name] = Row(transform)


for name in ("fftshift", "ifftshift"):
    def shift(haul, x, dim=None, name=name):
        return getattr(haul, name)(x, axes=dim)
    ROWS["fft." + name] = Row(shift)

for name, takes_pairs in (("fftn", True), ("ifftn", True), ("rfftn", False), ("irfftn", True)):
    def several(haul, x, s=None, dim=None, norm=None, name=name, takes_pairs=takes_pairs):
        rank = len(x.shape)
        axes = None if dim is None else [d + rank if d < 0 else d for d in ([dim] if isinstance(dim, int) else dim)]
        if s is not None and axes is None:
            axes = list(range(rank - len(s), rank))
        z = as_pairs(haul, x) if takes_pairs else x
        if s is not None and len(s) > 1:
            raise NoForm("sizes of several axes")
        s = s[0] if s else None
        return getattr(haul, name)(z, axes=axes, n=s, norm=norm)
    ROWS["fft." + name] = Row(several)

for name in ("fft2", "ifft2", "rfft2", "irfft2"):
    def last_two(haul, x, s=None, dim=(-2, -1), norm=None, name=name[:-1] + "n"):
        return ROWS["fft." + name].call(haul, x, s, dim, norm)
    ROWS["fft." + name] = Row(last_two)


@row("istft", factor=10)
def _(haul, x, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False, onesided=None,
      length=None, return_complex=False):
    if win_length not in (None, n_fft) or onesided is False or return_complex:
        raise NoForm("forms of windows")
    given = {} if length is None else {"length": length}
    return haul.istft(x, n_fft, hop=hop_length, window=window, uncentred=not center, normalised=bool(normalized),
                      **given)
