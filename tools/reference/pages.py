"""The pages of the reference: which header, or which section of one, is on which page, in the order of the start page.

Titles and introductions are in the headers. A section is written "ops.h: Reductions", as its comment begins there.
"""

PARTS = [
    ("Basics", "Conventions of the whole interface, errors, and the ownership of objects.", ["base.h", "error.h", "scope.h"]),
    (
        "Tensors and devices",
        "Tensors, their dtypes and devices, and moves between devices.",
        ["tensor.h", "dtype.h", "device.h", "transfer.h", "placement.h", "memory.h", "sync.h", "speed.h", "usage.h", "ledger.h", "budget.h",
         "profile.h"],
    ),
    (
        "Operations",
        "Everything that can be computed. The same call works on every device.",
        [
            "ops.h: Pointwise operations",
            "elementwise.h",
            "ops.h: Creating tensors",
            "random.h",
            "ops.h: Reductions",
            "statistics.h",
            "ops.h: Shape and layout",
            "ops.h: Linear algebra",
            "linalg.h",
            "fft.h",
            "conv.h",
            "volume.h",
            "image.h",
            "ops.h: Normalisation and dropout",
            "channels.h",
            "similarity.h",
            "indexing.h",
            "loss.h",
        ],
    ),
    ("Gradients", "Automatic differentiation and mixed precision.", ["autograd.h", "autocast.h"]),
    ("Networks", "Modules, and the built-in layers.", ["nn.h", "layers.h", "transformer.h", "onnx.h"]),
    (
        "Training",
        "Steps, early stopping and checkpoints, optimizers, schedules of the learning rate, averages of parameters, and data "
        "parallel training.",
        ["train.h", "optim.h", "schedule.h", "average.h", "parallel.h"],
    ),
    ("Several processes", "Groups of processes that compute together.", ["group.h"]),
    (
        "Data and files",
        "Datasets, batches and transforms, files of tensors and weights, and tensors of other libraries.",
        ["dataset.h", "data.h", "transform.h", "files.h", "io.h", "fetch.h", "dlpack.h"],
    ),
    ("Looking inside", "Observe and publish what the library does, estimate what it would cost, list a step as a program, plan where it runs, and fit it into memory.", ["stats.h", "publish.h", "events.h", "estimate.h", "program.h", "plan.h", "fit.h", "recording.h", "operation.h"]),
    ("Operations of your own", "Operations and kernels that your program adds.", ["custom.h", "kernel.h"]),
]

# Headers that have pages for their sections; their introduction is on the page of all operations.
SPLIT = ["ops.h"]

# Headers that only include others.
COLLECTIONS = ["haul.h"]


def slug(source):
    """The file name of a page, without .html."""
    header, _, section = source.partition(": ")
    return section.split(" ")[0].lower() if section else header.removesuffix(".h")
