"""The form of a row: how an operation of op_db is called in Haul."""

ROWS = {}


class NoForm(Exception):
    pass


class Row:
    """`factor`: of the error that is allowed; `post`: what is compared, from the sample and PyTorch's results;
    `symmetric`: the gradient is that of a symmetric matrix; `errors`: refused input is tried, unless the row itself
    computes sizes."""

    def __init__(self, call, gradient=True, factor=1, post=None, symmetric=False, errors=True):
        self.call, self.gradient, self.factor, self.post, self.symmetric = call, gradient, factor, post, symmetric
        self.errors = errors

    def reference(self, op, sample):
        results = op(sample.input, *sample.args, **sample.kwargs)
        return self.post(sample, results) if self.post else results


def row(*names, **options):
    def add(call):
        for name in names:
            ROWS[name] = Row(call, **options)
        return call
    return add


def only(options, *known):
    """Fails for options that were not read, unless they have their default."""
    rest = {k: v for k, v in options.items() if k not in known and v not in (None, False)}
    if rest:
        raise NoForm("options " + ", ".join(sorted(rest)))


def is_array(v):
    return hasattr(v, "dtype") and hasattr(v, "shape")


def dtype_name(dtype):
    """The name that Haul has for a dtype of PyTorch."""
    names = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "bool": "bool", "int8": "i8",
             "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8"}
    name = str(dtype)[len("torch."):]
    if name not in names:
        raise NoForm(name)
    return names[name]


def as_dtype(haul, x, dtype):
    return x if dtype is None else haul.cast(x, dtype_name(dtype))


def as_number(v):
    return v.item() if is_array(v) else v


def with_number(haul, x, value):
    """A number as an operand next to x."""
    return value if is_array(value) else haul.array(value, x.dtype)
