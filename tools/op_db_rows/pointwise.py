"""Operations on each element."""
from .form import ROWS, NoForm, Row, as_number, dtype_name, is_array, only, row

def unary(name, to=None, **options):
    @row(name, **options)
    def call(haul, x, **k):
        only(k)
        return getattr(haul, to or name)(x)


for name in ("tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "exp2", "log2", "log10", "trunc",
             "isinf", "signbit", "erfc", "erfinv", "lgamma", "digamma", "abs", "ceil", "cos", "erf", "exp", "expm1",
             "floor", "isfinite", "isnan", "log", "log1p", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sin",
             "sqrt", "square", "tanh", "bitwise_not", "logical_not"):
    unary(name)
for name in ("relu", "selu", "mish", "hardswish", "silu", "hardsigmoid", "softsign"):
    unary("nn.functional." + name, name)


def binary(name, to=None, **options):
    @row(name, **options)
    def call(haul, x, other, **k):
        only(k)
        if not is_array(x):
            raise NoForm("a number on the left")
        return getattr(haul, to or name)(x, other)


for name in ("atan2", "hypot", "fmod", "copysign", "xlogy", "logaddexp", "bitwise_and", "bitwise_or", "bitwise_xor",
             "logical_and", "logical_or", "logical_xor", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge",
             "remainder"):
    binary(name)
binary("nextafter", gradient=False)
binary("bitwise_left_shift", "left_shift")
binary("bitwise_right_shift", "right_shift")


@row("div.trunc_rounding")
def _(haul, x, other, rounding_mode=None):
    return haul.trunc_div(x, other)


@row("lerp")
def _(haul, x, end, weight):
    return haul.lerp(x, end, weight)


ROWS["addcmul"] = Row(lambda haul, x, a, b, value=1: haul.addcmul(x, a, b, value))
ROWS["addcdiv"] = Row(lambda haul, x, a, b, value=1: haul.addcdiv(x, a, b, value))


@row("nn.functional.elu")
def _(haul, x, alpha=1.0, inplace=False):
    return haul.elu(x, alpha)


@row("nn.functional.celu")
def _(haul, x, alpha=1.0, inplace=False):
    return haul.celu(x, alpha)


@row("nn.functional.threshold")
def _(haul, x, threshold, value, inplace=False):
    return haul.threshold(x, threshold, value)


@row("nn.functional.glu")
def _(haul, x, dim=-1):
    return haul.glu(x, dim)


@row("nn.functional.prelu")
def _(haul, x, weight):
    return haul.prelu(x, weight)


for n in range(5):
    ROWS[f"polygamma.polygamma_n_{n}"] = Row(lambda haul, x, n: haul.polygamma(x, n))
for name in ("0", "3", "neg_3"):
    ROWS["round.decimals_" + name] = Row(lambda haul, x, decimals=0: haul.round_decimals(x, decimals))


# ---- arithmetic ----

def scaled(haul, other, alpha):
    return other if alpha == 1 else other * alpha


@row("add")
def _(haul, x, other, alpha=1):
    return haul.add(x, scaled(haul, other, alpha)) if is_array(x) else haul.add(scaled(haul, other, alpha), x)


@row("sub")
def _(haul, x, other, alpha=1):
    return haul.sub(x, scaled(haul, other, alpha)) if is_array(x) else haul.rsub(scaled(haul, other, alpha), x)


@row("rsub")
def _(haul, x, other, alpha=1):
    return haul.sub(other, scaled(haul, x, alpha)) if is_array(other) else haul.rsub(scaled(haul, x, alpha), other)


def from_either_side(name, reverse):
    def call(haul, x, other, rounding_mode=None):
        return getattr(haul, name)(x, other) if is_array(x) else getattr(haul, reverse)(other, x)
    return call


ROWS["mul"] = Row(from_either_side("mul", "mul"))
ROWS["pow"] = Row(from_either_side("pow", "rpow"))
for name in ("div.no_rounding_mode", "true_divide"):
    ROWS[name] = Row(from_either_side("div", "rdiv"))
for name in ("div.floor_rounding", "floor_divide"):
    ROWS[name] = Row(from_either_side("floor_div", "rfloor_div"))
for name, to, reverse in (("add", "add", "add"), ("sub", "sub", "rsub"), ("mul", "mul", "mul"), ("div", "div", "rdiv"),
                          ("mod", "remainder", "rremainder"), ("pow", "pow", "rpow"), ("and", "bitwise_and", None),
                          ("or", "bitwise_or", None), ("xor", "bitwise_xor", None)):
    def from_the_right(haul, x, other, to=to, reverse=reverse):
        return getattr(haul, to)(other, x) if is_array(other) else getattr(haul, reverse or to)(x, other)
    ROWS[f"__r{name}__"] = Row(from_the_right)


@row("float_power")
def _(haul, x, other):
    if not is_array(x):
        return haul.rpow(haul.cast(other, "f64"), x)
    return haul.pow(haul.cast(x, "f64"), haul.cast(other, "f64") if is_array(other) else other)


@row("ldexp")
def _(haul, x, other):
    return haul.mul(x, haul.exp2(other))


@row("max.binary")
def _(haul, x, other):
    return haul.maximum(x, other)


@row("min.binary")
def _(haul, x, other):
    return haul.minimum(x, other)


@row("clamp_max")
def _(haul, x, max):
    return haul.minimum(x, max)


@row("clamp_min")
def _(haul, x, min):
    return haul.maximum(x, min)


@row("clamp")
def _(haul, x, min=None, max=None):
    if is_array(min) and is_array(max):
        return haul.clamp_between(x, min, max)
    if min is not None and max is not None and not is_array(min) and not is_array(max):
        return haul.clamp(x, min, max)
    x = x if min is None else haul.maximum(x, min)
    return x if max is None else haul.minimum(x, max)


@row("nan_to_num")
def _(haul, x, nan=None, posinf=None, neginf=None):
    given = {} if neginf is None else {"low": neginf}
    most = {"f32": 3.4028234663852886e38, "f64": 1.7976931348623157e308}.get(x.dtype, 0)
    if neginf is not None and posinf is not None and neginf != -posinf:
        raise NoForm("bounds of their own")
    return haul.nan_to_num(x, nan or 0, most if posinf is None else posinf, **given)


@row("where")
def _(haul, x, condition, other):
    return haul.where(condition, x, other) if is_array(other) else haul.where_scalar(condition, x, other)


@row("masked_fill")
def _(haul, x, mask, value):
    if is_array(value) and value.requires_grad:
        return haul.where(mask, value, x)
    return haul.masked_fill(x, mask, as_number(value))


for name in ("sign", "sgn"):
    unary(name, "sign")
unary("positive", "clone")
ROWS["frac"] = Row(lambda haul, x: haul.sub(x, haul.trunc(x)))
ROWS["deg2rad"] = Row(lambda haul, x: haul.mul(x, 0.017453292519943295))
ROWS["rad2deg"] = Row(lambda haul, x: haul.mul(x, 57.29577951308232))
ROWS["isposinf"] = Row(lambda haul, x: haul.eq(x, haul.inf))
ROWS["isneginf"] = Row(lambda haul, x: haul.eq(x, -haul.inf))
ROWS["special.polygamma.special_polygamma_n_0"] = Row(lambda haul, x, n: haul.polygamma(x, n))
ROWS["special.ndtr"] = Row(lambda haul, x: haul.mul(haul.erfc(haul.mul(x, -0.7071067811865476)), 0.5))
ROWS["special.xlog1py"] = Row(lambda haul, x, y: haul.xlogy(x, haul.add(y, 1)))


@row("logit")
def _(haul, x, eps=None):
    if eps is not None and eps > 0.5:
        raise NoForm("a lower bound above the upper one")
    p = x if eps is None else haul.clamp(x, eps, 1 - eps)
    return haul.log(haul.div(p, haul.rsub(p, 1)))


# ---- activations ----

ROWS["nn.functional.leaky_relu"] = Row(lambda haul, x, negative_slope=0.01, inplace=False:
                                       haul.leaky_relu(x, negative_slope))


@row("nn.functional.hardtanh")
def _(haul, x, min_val=-1.0, max_val=1.0, inplace=False):
    if haul.dtype_is_integer(x.dtype) and (min_val % 1 or max_val % 1):
        raise NoForm("a fraction with integers: f32 in Haul")
    return haul.clamp(x, min_val, max_val)


ROWS["nn.functional.relu6"] = Row(lambda haul, x, inplace=False: haul.clamp(x, 0, 6))
ROWS["nn.functional.logsigmoid"] = Row(lambda haul, x: haul.neg(haul.softplus(haul.neg(x))))
ROWS["nn.functional.tanhshrink"] = Row(lambda haul, x: haul.sub(x, haul.tanh(x)))
ROWS["nn.functional.softplus"] = Row(lambda haul, x, beta=1, threshold=20: haul.softplus_beta(x, beta, threshold))
ROWS["nn.functional.gelu"] = Row(lambda haul, x, approximate="none": haul.gelu(x) if approximate == "none"
                                 else haul.gelu_tanh(x))

# ---- casts ----

for name, dtype in (("bfloat16", "bf16"), ("bool", "bool"), ("byte", "u8"), ("char", "i8"), ("double", "f64"),
                    ("float", "f32"), ("half", "f16"), ("int", "i32"), ("long", "i64"), ("short", "i16")):
    def to_dtype(haul, x, memory_format=None, dtype=dtype):
        return haul.cast(x, dtype)
    ROWS[name] = Row(to_dtype)


@row("to")
def _(haul, x, *args, memory_format=None, **k):
    only(k, "dtype", "device", "copy", "non_blocking")
    found = [v for v in args + tuple(k.values()) if str(v).startswith("torch.") and not is_array(v)]
    if [v for v in args if is_array(v)]:
        return haul.cast(x, next(v for v in args if is_array(v)).dtype)
    return haul.cast(x, dtype_name(found[0])) if found else haul.clone(x)
